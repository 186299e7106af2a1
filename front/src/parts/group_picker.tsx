/** The choice of a group of a grouped query. */

import { usePage } from "../context";
import { groupLabel } from "../logic/values";
import type { Group, Query } from "../types";
import { Combobox } from "./combobox";
import { Data } from "./text";

export function GroupPicker({ query, group, onPick }: { query: Query; group: Group | null; onPick: (group: Group) => void }) {
  const { api } = usePage();
  return (
    <div class="picker">
      <span class="muted" aria-hidden="true">
        <Data value={query.groups.join(", ")} longest={40} />
      </span>
      <Combobox
        label={`Group by ${query.groups.join(", ")}`}
        value={groupLabel(group)}
        offer={async (text) => {
          const { total, groups } = await api.groups(query.name, text);
          return { total, choices: groups.map((one) => ({ key: JSON.stringify(one), label: groupLabel(one) })) };
        }}
        onPick={(choice) => onPick(JSON.parse(choice.key) as Group)}
      />
    </div>
  );
}
