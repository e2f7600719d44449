import type { HLJSApi, LanguageFn } from "highlight.js";
import { useEffect, useState } from "react";

type Load = () => Promise<{ default: LanguageFn }>;

/** Each comes as a file of its own, when the first code in it is shown. */
const LANGUAGES: Record<string, Load> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  css: () => import("highlight.js/lib/languages/css"),
  diff: () => import("highlight.js/lib/languages/diff"),
  dockerfile: () => import("highlight.js/lib/languages/dockerfile"),
  go: () => import("highlight.js/lib/languages/go"),
  ini: () => import("highlight.js/lib/languages/ini"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  python: () => import("highlight.js/lib/languages/python"),
  rust: () => import("highlight.js/lib/languages/rust"),
  sql: () => import("highlight.js/lib/languages/sql"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};
const ALIASES: Record<string, string> = {
  console: "bash", docker: "dockerfile", golang: "go", html: "xml", js: "javascript", jsonc: "json", jsx: "javascript", md: "markdown",
  patch: "diff", py: "python", rs: "rust", sh: "bash", shell: "bash", svg: "xml", toml: "ini", ts: "typescript", tsx: "typescript",
  yml: "yaml", zsh: "bash", "c++": "cpp",
};

let core: Promise<HLJSApi> | undefined;
const ready = new Map<string, HLJSApi>();

async function load(language: string): Promise<HLJSApi> {
  core ??= import("highlight.js/lib/core").then((module) => module.default);
  const [api, definition] = await Promise.all([core, LANGUAGES[language]!()]);
  api.registerLanguage(language, definition.default);
  ready.set(language, api);
  return api;
}

function known(name: string): string | undefined {
  const lower = name.toLowerCase();
  const language = ALIASES[lower] ?? lower;
  return language in LANGUAGES ? language : undefined;
}

/** Code as HTML with its words marked, all of it escaped; undefined where it is to be shown plain. */
export function useHighlighted(code: string, name: string, enabled: boolean): string | undefined {
  const language = enabled ? known(name) : undefined;
  const [, setLoaded] = useState("");
  useEffect(() => {
    if (language === undefined || ready.has(language)) return;
    let gone = false;
    // A browser that cannot get the file any more shows the code plain.
    load(language).then(() => gone || setLoaded(language), () => undefined);
    return () => {
      gone = true;
    };
  }, [language]);
  const api = language === undefined ? undefined : ready.get(language);
  return api?.highlight(code, { language: language!, ignoreIllegals: true }).value;
}
