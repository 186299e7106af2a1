/** A component that is redrawn only when one of its properties changes. */

import { Component, type ComponentChildren, createElement, type FunctionComponent } from "preact";

export function memo<P extends object>(part: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before = this.props as { [name: string]: unknown };
      const after = next as { [name: string]: unknown };
      const names = new Set([...Object.keys(before), ...Object.keys(after)]);
      for (const name of names) if (name !== "children" && before[name] !== after[name]) return true;
      return false;
    }

    override render(): ComponentChildren {
      return createElement(part, this.props as P);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
