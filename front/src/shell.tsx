/** The header of every view: name, links to the views, connection status and theme. */

import { useEffect, useState } from "preact/hooks";
import { useKey, usePage } from "./context";
import { HOME, type Route, type View, VIEWS, writeRoute } from "./logic/route";
import { Data, Icon } from "./parts/text";
import { nextTheme, readTheme, setTheme } from "./theme";

const NAMES: { [view in View]: string } = { boards: "Leaderboards", time: "Time", compare: "Compare", engine: "Engine", workload: "Workload" };

export function Head({ route }: { route: Route }) {
  const { store } = usePage();
  useKey("state");
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to content
      </a>
      <header class="head">
        <a class="brand" href="#/boards" aria-label="Skyband, leaderboards">
          <svg viewBox="0 0 20 20" aria-hidden="true" focusable="false">
            <path d="M2 4.5h16M2 10h11M2 15.5h6" />
          </svg>
          <span>Skyband</span>
        </a>
        <nav aria-label="Views">
          {VIEWS.map((view) => (
            <a key={view} href={addressOf(view, route)} aria-current={view === route.view ? "page" : undefined}>
              {NAMES[view]}
            </a>
          ))}
        </nav>
        <p class="run">
          <Data value={store.state?.title ?? ""} longest={60} />
        </p>
        <Status />
        <ThemeButton />
      </header>
      <Banner />
    </>
  );
}

const seen: { [view in View]?: string } = {};

/** The link to a view, in the state in which it was left. */
function addressOf(view: View, route: Route): string {
  seen[route.view] = writeRoute({ ...route, row: null });
  return seen[view] ?? writeRoute({ ...HOME, view });
}

function Status() {
  const { store } = usePage();
  useKey("link");
  useKey("state");
  const [kind, words] = statusOf(store.link, store.state?.live ?? true, store.state?.ended ?? false);
  return (
    <p class={`status ${kind}`}>
      <span class="dot" aria-hidden="true" />
      {words}
    </p>
  );
}

function statusOf(link: string, isLive: boolean, hasEnded: boolean): [string, string] {
  if (link === "connecting") return ["waiting", "Connecting"];
  if (link === "lost") return ["lost", "Not connected"];
  if (hasEnded) return ["ended", "Ended"];
  return isLive ? ["live", "Live"] : ["ended", "Stored answers"];
}

/** A banner while the server is not reachable. Short breaks are not shown. */
function Banner() {
  const { store, link } = usePage();
  useKey("link");
  const isLost = store.link === "lost";
  const [isShown, show] = useState(false);
  useEffect(() => {
    const wait = setTimeout(() => show(isLost), isLost ? 400 : 0);
    return () => clearTimeout(wait);
  }, [isLost]);
  return (
    <div role="alert" class="banner-place">
      {isShown && isLost && (
        <div class="banner">
          <span>
            {store.refusal ?? "The server is not responding. The page shows the last data it received and reconnects automatically."}
          </span>
          <button type="button" class="button" onClick={() => link.renew()}>
            Retry now
          </button>
        </div>
      )}
    </div>
  );
}

function ThemeButton() {
  const [theme, set] = useState(readTheme);
  const change = () => {
    const next = nextTheme(theme);
    setTheme(next);
    set(next);
  };
  return (
    <button type="button" class="quiet framed" aria-label={`Colours: ${theme}`} title={`Colours: ${theme}`} onClick={change}>
      <Icon name="theme" />
    </button>
  );
}
