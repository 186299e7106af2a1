/** The page: opens the connection, follows the URL and draws the view it selects. */

import { render } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Page, PageContext, useKey } from "./context";
import { Api } from "./live/api";
import { Link } from "./live/link";
import { Store } from "./live/store";
import { readRoute, type Route, takeToken, writeRoute } from "./logic/route";
import { DetailsContext, type Opened, RowDetails } from "./parts/details";
import { Head } from "./shell";
import { readTheme, setTheme } from "./theme";
import { Boards } from "./views/boards";
import { Compare } from "./views/compare";
import { Engine } from "./views/engine";
import { Time } from "./views/time";
import { Workload } from "./views/workload";

const TITLES = { boards: "Leaderboards", time: "Time", compare: "Compare", engine: "Engine", workload: "Workload" };

/** Remove the token from the URL, where others might see it, and store it for this tab. */
function tokenOf(): string | null {
  const { token, rest } = takeToken(location.hash);
  if (token === null) return sessionStorage.getItem("skyband-token");
  sessionStorage.setItem("skyband-token", token);
  history.replaceState(null, "", rest);
  return token;
}

setTheme(readTheme());
const store = new Store();
const api = new Api(tokenOf());
const link = new Link(store, api);

function App() {
  const [route, setRoute] = useState<Route>(() => readRoute(location.hash));
  const [opened, hold] = useState<Opened | null>(null);
  const latest = useRef(route);
  latest.current = route;

  useEffect(() => {
    const follow = () => {
      const { token, rest } = takeToken(location.hash);
      if (token !== null) {
        api.token = token;
        sessionStorage.setItem("skyband-token", token);
        history.replaceState(null, "", rest);
        link.renew();
      }
      setRoute(readRoute(location.hash));
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);

  const announced = useRef<HTMLDivElement | null>(null);
  const page = useMemo<Page>(
    () => ({
      store,
      api,
      link,
      go: (change, how = "push") => {
        const next = { ...latest.current, ...change };
        latest.current = next;
        if (writeRoute(next) === writeRoute(readRoute(location.hash))) how = "replace";
        if (how === "push") history.pushState({ opens: Boolean(change.row) }, "", writeRoute(next));
        else history.replaceState(history.state, "", writeRoute(next));
        setRoute(next);
      },
      announce: (words) => {
        if (announced.current) announced.current.textContent = words;
      },
    }),
    [],
  );
  const open = useCallback((one: Opened) => {
    hold(one);
    page.go({ row: { query: one.board.query, id: one.row.id } });
  }, []);
  // Back to where the row was opened; a link that opened it has nothing to go back to.
  const close = useCallback(() => {
    if ((history.state as { opens?: boolean } | null)?.opens) history.back();
    else page.go({ row: null }, "replace");
  }, []);

  return (
    <PageContext.Provider value={page}>
      <DetailsContext.Provider value={open}>
        <Titled view={route.view} />
        <Head route={route} />
        <main id="main" tabIndex={-1}>
          {route.view === "boards" && <Boards route={route} />}
          {route.view === "time" && <Time route={route} />}
          {route.view === "compare" && <Compare route={route} />}
          {route.view === "engine" && <Engine route={route} />}
          {route.view === "workload" && <Workload />}
        </main>
        <div class="unseen" role="status" ref={announced} />
        <RowDetails route={route} opened={opened} onClose={close} />
      </DetailsContext.Provider>
    </PageContext.Provider>
  );
}


function Titled({ view }: { view: keyof typeof TITLES }) {
  useKey("state");
  const title = store.state?.title;
  useEffect(() => {
    document.title = title ? `${TITLES[view]} · ${title} · Skyband` : "Skyband";
  }, [view, title]);
  return null;
}

const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(<App />, root);
  link.start();
}
