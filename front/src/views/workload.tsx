/** The workload view: the queries as SQL. If allowed, queries can be added and dropped. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKey, usePage, useVirtual } from "../context";
import { clip, textOf } from "../logic/values";
import { Data, Icon } from "../parts/text";
import type { Explained, Query } from "../types";

const HEIGHT = 56;
const EXAMPLE = "name: TOPK price * size, 10 OVER 10 MINUTES EVERY 1 MINUTE";

export function Workload() {
  const { store, link, api } = usePage();
  useKey("state");
  useEffect(() => link.watch([]), []);
  const [reply, setReply] = useState<{ text: string; isError: boolean } | null>(null);
  const [dropping, drop] = useState<string | null>(null);
  if (!store.state) return <div class="workload" />;
  const isAllowed = store.state.control && api.token !== null;
  return (
    <div class="workload">
      <h1 class="unseen">Workload</h1>
      {isAllowed ? <AddQuery onReply={setReply} /> : <ReadOnlyNotice control={store.state.control} />}
      <div class={reply?.isError ? "reply error" : "reply"} role="status">
        {reply && <bdi>{reply.text}</bdi>}
      </div>
      <Queries queries={store.state.queries} onDrop={isAllowed ? drop : null} />
      {dropping !== null && <DropDialog name={dropping} onReply={setReply} onClose={() => drop(null)} />}
    </div>
  );
}

function ReadOnlyNotice({ control }: { control: boolean }) {
  return (
    <p class="panel hint-line">
      {control
        ? "To change the workload, open the address that the job printed at startup. It contains the token."
        : "This page is read-only. To change the workload here, start the job with "}
      {!control && <code>--allow-control</code>}
      {!control && "."}
    </p>
  );
}

function AddQuery({ onReply }: { onReply: (reply: { text: string; isError: boolean } | null) => void }) {
  const { api, store } = usePage();
  const [sql, write] = useState("");
  const [stream, choose] = useState(store.state?.streams[0]?.name ?? null);
  const [explained, show] = useState<{ sql: string; answer: Explained } | null>(null);
  const [isBusy, wait] = useState(false);
  const streams = store.state?.streams ?? [];
  const target = streams.length > 1 ? stream : null;
  const isReady = explained !== null && explained.sql === `${target} ${sql}` && !explained.answer.error;

  const attempt = async (work: () => Promise<void>) => {
    wait(true);
    onReply(null);
    try {
      await work();
    } catch (error) {
      onReply({ text: (error as Error).message, isError: true });
    } finally {
      wait(false);
    }
  };
  const explain = () =>
    attempt(async () => {
      const answer = await api.explain(sql, target);
      show({ sql: `${target} ${sql}`, answer });
      if (answer.error) onReply({ text: answer.error, isError: true });
    });
  const add = () =>
    attempt(async () => {
      const { done } = await api.add(sql, target);
      onReply({ text: done, isError: false });
      write("");
      show(null);
    });

  return (
    <form
      class="panel adding"
      aria-label="Add a query"
      onSubmit={(event) => {
        event.preventDefault();
        void (isReady ? add() : explain());
      }}
    >
      <h2>
        <label for="sql">Add a query</label>
      </h2>
      <textarea
        id="sql"
        rows={3}
        spellcheck={false}
        placeholder={EXAMPLE}
        value={sql}
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
        }}
      />
      <div class="form-row">
        {streams.length > 1 && (
          <label class="muted">
            Stream{" "}
            <select value={stream ?? ""} onChange={(event) => choose(event.currentTarget.value)}>
              {streams.map(({ name }) => (
                <option key={name} value={name}>
                  {clip(name, 60)}
                </option>
              ))}
            </select>
          </label>
        )}
        <button type="button" class="button" disabled={isBusy || sql.trim() === ""} onClick={() => void explain()}>
          Explain
        </button>
        <button type="button" class="button primary" disabled={isBusy || !isReady} onClick={() => void add()}>
          Add
        </button>
        <span class="muted">{isBusy ? "Waiting for the server…" : isReady ? "Nothing is changed yet." : "Explain shows the plan and the cost before you add the query."}</span>
      </div>
      {explained && !explained.answer.error && (
        <div class="explained">
          <p>
            <strong>
              <Data value={explained.answer.name} longest={80} />
            </strong>{" "}
            <span class="muted">
              on <Data value={explained.answer.stream} longest={60} />
            </span>
            {explained.answer.cost !== null && (
              <span class="chip">
                cost <bdi>{textOf(explained.answer.cost)}</bdi>
              </span>
            )}
          </p>
          <pre tabIndex={0} aria-label="Plan with this query">
            <bdi>{explained.answer.text}</bdi>
          </pre>
        </div>
      )}
    </form>
  );
}

function Queries({ queries, onDrop }: { queries: Query[]; onDrop: ((name: string) => void) | null }) {
  const { scroller, span } = useVirtual(queries.length, HEIGHT, 32);
  return (
    <section class="panel" aria-label="Queries">
      <div class="panel-head">
        <h2>Queries</h2>
        <p class="muted number">{queries.length.toLocaleString("en-GB")}</p>
      </div>
      <div class="queries-scroll" ref={scroller} tabIndex={0} role="group" aria-label="List of queries" style={{ maxHeight: `${HEIGHT * 9.5}px` }}>
        <table class="queries" aria-rowcount={queries.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              <th scope="col">Name</th>
              <th scope="col">SQL</th>
              <th scope="col">{onDrop ? <span class="unseen">Drop</span> : "Stream"}</th>
            </tr>
          </thead>
          <tbody>
            {span.before > 0 && <Gap height={span.before} />}
            {queries.slice(span.first, span.last).map((query, offset) => (
              <tr key={query.name} aria-rowindex={span.first + offset + 2}>
                <th scope="row">
                  <Data value={query.name} longest={80} />
                </th>
                <td>
                  <code>
                    <Data value={query.text ?? `Top ${query.k} over ${query.window}`} longest={300} />
                  </code>
                </td>
                <td>
                  {onDrop ? (
                    <button type="button" class="button" aria-label={`Drop ${clip(query.name, 80)}`} onClick={() => onDrop(query.name)}>
                      Drop
                    </button>
                  ) : (
                    <Data value={query.stream} longest={40} />
                  )}
                </td>
              </tr>
            ))}
            {span.after > 0 && <Gap height={span.after} />}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Gap({ height }: { height: number }) {
  return (
    <tr class="gap" aria-hidden="true">
      <td colSpan={3} style={{ height: `${height}px` }} />
    </tr>
  );
}

interface DroppingProps {
  name: string;
  onReply: (reply: { text: string; isError: boolean }) => void;
  onClose: () => void;
}

function DropDialog({ name, onReply, onClose }: DroppingProps) {
  const { api } = usePage();
  const dialog = useRef<HTMLDialogElement | null>(null);
  const [isBusy, wait] = useState(false);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const drop = async () => {
    wait(true);
    try {
      onReply({ text: (await api.drop(name)).done, isError: false });
    } catch (error) {
      onReply({ text: (error as Error).message, isError: true });
    }
    dialog.current?.close();
  };
  return (
    <dialog ref={dialog} class="confirm" aria-labelledby="confirm-title" onClose={onClose}>
      <div class="dialog-body">
        <header>
          <h2 id="confirm-title">
            Drop <Data value={name} longest={80} />?
          </h2>
          <button type="button" class="quiet" aria-label="Close" onClick={() => dialog.current?.close()}>
            <Icon name="close" />
          </button>
        </header>
        <p>The job stops answering this query. Results that were already written stay unchanged.</p>
        <div class="form-row end">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="button" class="button primary" disabled={isBusy} onClick={() => void drop()}>
            Drop query
          </button>
        </div>
      </div>
    </dialog>
  );
}
