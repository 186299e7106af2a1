/** What a reader can take away from a ranking: its address, and its rows as a file. */

import type { ComponentChildren } from "preact";
import { usePage } from "../context";
import { HOME, type Route, writeRoute } from "../logic/route";
import type { Board } from "../types";

const FORMATS = { csv: "CSV", parquet: "Parquet" } as const;

/** The address of a window as it is shown, even when newer windows have come. */
export function windowRoute(board: Board, label: string | null = null): Route {
  return { ...HOME, view: "time", query: board.query, group: board.group, at: String(board.moment), label };
}

export function TakeAway({ board, label, children }: { board: Board; label: string | null; children?: ComponentChildren }) {
  const { api, announce } = usePage();
  return (
    <p class="muted take-away">
      <CopyLink route={() => windowRoute(board, label)} />
      {Object.entries(FORMATS).map(([format, name]) => (
        <button
          key={format}
          type="button"
          class="quiet framed"
          onClick={() =>
            api.file(board.query, board.group, board.moment, format as keyof typeof FORMATS).then(
              (file) => save(file, `answers.${format}`),
              (error: Error) => announce(error.message),
            )
          }
        >
          Save as {name}
        </button>
      ))}
      {children}
    </p>
  );
}

/** A button that copies the address of a view, without the token. */
export function CopyLink({ route }: { route: () => Route }) {
  const { announce } = usePage();
  const copy = () => {
    const address = `${location.origin}${location.pathname}${writeRoute(route())}`;
    const failed = () => announce(`The link cannot be copied: ${address}`);
    if (!navigator.clipboard) return failed(); // only pages on loopback and over HTTPS have it
    navigator.clipboard.writeText(address).then(() => announce("Link copied"), failed);
  };
  return (
    <button type="button" class="quiet framed" onClick={copy}>
      Copy link
    </button>
  );
}

function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
