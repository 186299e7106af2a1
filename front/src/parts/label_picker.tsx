/** The choice of the column that names the objects of a ranking. */

import { clip } from "../logic/values";
import type { Query } from "../types";

interface Props {
  query: Query;
  label: string | null;
  onPick: (label: string | null) => void;
}

export function LabelPicker({ query, label, onPick }: Props) {
  if (query.columns.length < 2) return null;
  const usual = query.label ?? "";
  const shown = label ?? usual;
  const columns = shown === "" || query.columns.includes(shown) ? query.columns : [shown, ...query.columns];
  return (
    <label class="muted label-picker">
      Named by{" "}
      <select value={shown} onChange={(event) => onPick(event.currentTarget.value === usual ? null : event.currentTarget.value)}>
        <option value="">id</option>
        {columns.map((column) => (
          <option key={column} value={column}>
            {clip(column, 40)}
          </option>
        ))}
      </select>
    </label>
  );
}
