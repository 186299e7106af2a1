/** Light or dark: what the system says, unless somebody chose. The choice is kept. */

export type Theme = "as the system" | "light" | "dark";
const KEPT = "skyband-theme";

export function readTheme(): Theme {
  const kept = read();
  return kept === "light" || kept === "dark" ? kept : "as the system";
}

export function setTheme(theme: Theme): void {
  const root = document.documentElement;
  try {
    if (theme === "as the system") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, theme);
  } catch {
    // Where nothing may be kept, the choice lasts as long as the page.
  }
  if (theme === "as the system") delete root.dataset["theme"];
  else root.dataset["theme"] = theme;
  dispatchEvent(new Event("theme"));
}

/** The first press changes what is seen; the third leads back to the system's choice. */
export function nextTheme(theme: Theme): Theme {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order: Theme[] = isDark ? ["as the system", "light", "dark"] : ["as the system", "dark", "light"];
  return order[(order.indexOf(theme) + 1) % order.length] as Theme;
}

function read(): string | null {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
