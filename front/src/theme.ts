/** The theme: the system's, unless the user chose light or dark. The choice is stored in the browser. */

export type Theme = "system" | "light" | "dark";
const KEPT = "skyband-theme";

export function readTheme(): Theme {
  const kept = read();
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function setTheme(theme: Theme): void {
  const root = document.documentElement;
  try {
    if (theme === "system") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, theme);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
  if (theme === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = theme;
  dispatchEvent(new Event("theme"));
}

/** The first press switches to the other theme, the second switches back, the third follows the system again. */
export function nextTheme(theme: Theme): Theme {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order: Theme[] = isDark ? ["system", "light", "dark"] : ["system", "dark", "light"];
  return order[(order.indexOf(theme) + 1) % order.length] as Theme;
}

function read(): string | null {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
