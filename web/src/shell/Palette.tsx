import { useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { CornerDownLeft, type LucideIcon, Moon, Plus, Search, SquareActivity, Users } from "lucide-react";
import { useDeferredValue, useEffect, useId, useMemo, useRef, useState } from "react";

import { $api } from "@/api/client";
import { useMe } from "@/api/session";

import { PLACES } from "./navigation";
import { setTheme, useTheme } from "./theme";

interface Entry {
  id: string;
  name: string;
  kind: string;
  icon: LucideIcon;
  run: () => void;
}

/** Goes anywhere and does the most common things, by typing. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useId();
  const entries = useEntries(useDeferredValue(text.trim()));
  const current = Math.min(at, entries.length - 1);
  useEffect(() => {
    const open = dialog.current!;
    const before = document.activeElement;
    open.showModal();
    return () => {
      open.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const move = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((current + step + entries.length) % Math.max(entries.length, 1));
    else if (event.key === "Enter") choose(entries[current]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      aria-label="Command palette"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
      className="mx-auto mt-[12dvh] w-[calc(100%-2rem)] max-w-xl animate-appear overflow-hidden rounded-xl border border-line bg-raised p-0 text-ink shadow-float"
    >
      <div className="flex items-center gap-3 border-b border-line px-4">
        <Search size={17} className="shrink-0 text-faint" aria-hidden />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={entries[current] ? `${list}-${current}` : undefined}
          aria-label="Search for a place, a team, a session or an action"
          placeholder="Go to, find or do…"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={move}
          className="h-13 w-full bg-transparent text-lg outline-none placeholder:text-faint"
        />
      </div>
      <ul id={list} role="listbox" aria-label="Results" className="max-h-[50dvh] overflow-y-auto p-1.5">
        {entries.map((entry, index) => (
          <li
            key={entry.id}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === current}
            ref={index === current ? (item) => item?.scrollIntoView({ block: "nearest" }) : undefined}
            onMouseMove={() => setAt(index)}
            onClick={() => choose(entry)}
            className={clsx("flex cursor-pointer items-center gap-3 rounded-md px-3 py-2 text-sm", index === current && "bg-hover")}
          >
            <entry.icon size={16} className="shrink-0 text-soft" aria-hidden />
            <span className="min-w-0 flex-1 truncate">{entry.name}</span>
            <span className="text-xs text-faint">{entry.kind}</span>
            {index === current && <CornerDownLeft size={13} className="text-faint" aria-hidden />}
          </li>
        ))}
      </ul>
      {entries.length === 0 && <p className="px-4 pb-5 text-center text-sm text-soft">Nothing has that name.</p>}
    </dialog>
  );
}

function useEntries(text: string): Entry[] {
  const navigate = useNavigate();
  const { dark } = useTheme();
  const { scopes } = useMe();
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 100 } } });
  const sessions = $api.useQuery("get", "/api/sessions", { params: { query: { limit: 100 } } });
  return useMemo(() => {
    const go = (to: string, params?: Record<string, string>) => () => void navigate({ to, params } as never);
    const all: Entry[] = [
      ...PLACES.filter((place) => scopes.includes(place.scope)).map((place) => ({
        id: place.to,
        name: place.name,
        kind: "Go to",
        icon: place.icon,
        run: go(place.to),
      })),
      ...(scopes.includes("sessions:write") ? [{ id: "+session", name: "Start a session", kind: "Do", icon: Plus, run: go("/sessions/new") }] : []),
      ...(scopes.includes("teams:write") ? [{ id: "+team", name: "Create a team", kind: "Do", icon: Plus, run: go("/teams/new") }] : []),
      { id: "theme", name: dark ? "Use the light theme" : "Use the dark theme", kind: "Do", icon: Moon, run: () => setTheme(dark ? "light" : "dark") },
      ...(teams.data?.items ?? []).map((team) => ({
        id: team.id,
        name: team.name,
        kind: "Chat with team",
        icon: Users,
        run: go("/chat/$teamId", { teamId: team.id }),
      })),
      ...(sessions.data?.items ?? []).map((session) => ({
        id: session.id,
        name: session.title,
        kind: "Session",
        icon: SquareActivity,
        run: go("/sessions/$sessionId", { sessionId: session.id }),
      })),
    ];
    const words = text.toLowerCase().split(/\s+/);
    return all.filter((entry) => words.every((word) => `${entry.kind} ${entry.name}`.toLowerCase().includes(word))).slice(0, 40);
  }, [text, dark, scopes, teams.data, sessions.data, navigate]);
}
