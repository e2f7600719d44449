import type { InfiniteData } from "@tanstack/react-query";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

import { api, inPages } from "@/api/client";
import type { Schemas } from "@/api/types";
import { useEvents, useLiveState } from "@/live/LiveProvider";

type Session = Schemas["SessionRead"];
type List = InfiniteData<Schemas["Page_SessionRead_"]>;
type Init = { params: { query: { q?: string; state?: Schemas["State"][]; team_id?: string; limit: number } } };

export const PAGE = 100;
const WAIT = 500;
// More than these at once are left for the next time: nobody looks at so many.
const MOST = 20;

/** Puts the newest page and changed sessions into a list; all other pages stay as they are. */
export function merged(list: List, newest: Session[], changed: Session[], fits: (session: Session) => boolean): List {
  const known = new Map([...changed, ...newest].map((session) => [session.id, session]));
  const first = new Set(newest.map((session) => session.id));
  const pages = list.pages.map((page, index) => {
    const items = page.items
      .filter((session) => !first.has(session.id))
      .map((session) => known.get(session.id) ?? session)
      .filter((session) => !known.has(session.id) || fits(session));
    return { ...page, items: index === 0 ? [...newest, ...items] : items };
  });
  return { ...list, pages };
}

/** Keeps a long list up to date by its newest page and by the sessions that events name. */
export function useFreshSessions(init: Init): void {
  const client = useQueryClient();
  const changed = useRef(new Set<string>());
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const latest = useRef(init);
  latest.current = init;
  const live = useLiveState();

  const look = async () => {
    timer.current = undefined;
    const asked = latest.current;
    const key = ["get", "/api/sessions", inPages(asked)];
    const before = client.getQueryData<List>(key);
    if (!before) return;
    const ids = [...changed.current].slice(0, MOST);
    ids.forEach((id) => changed.current.delete(id));
    const newest = (await api.GET("/api/sessions", asked)).data?.items ?? [];
    const fresh = new Set(newest.map((session) => session.id));
    const listed = new Set(before.pages.flatMap((page) => page.items.map((session) => session.id)));
    const single = await Promise.all(ids.filter((id) => listed.has(id) && !fresh.has(id)).map(readSession));
    const states = asked.params.query.state;
    const fits = (session: Session) => states === undefined || states.includes(session.state);
    client.setQueryData<List>(key, (list) => list && merged(list, newest, single.filter((each) => each !== undefined), fits));
    if (changed.current.size > 0) plan();
  };
  const plan = () => {
    timer.current ??= setTimeout(() => void look().catch(() => undefined), WAIT);
  };
  useEvents(["session."], (event) => {
    if (event.type === "session.progress") return;
    if (typeof event.data.session_id === "string") changed.current.add(event.data.session_id);
    plan();
  });
  // After a lost connection events may be missing in this tab's memory.
  useEffect(() => {
    if (live === "live") plan();
    // Only when it has come back, not whenever something is drawn.
  }, [live]);
  useEffect(() => () => clearTimeout(timer.current), []);
}

async function readSession(id: string): Promise<Session | undefined> {
  const found = await api.GET("/api/sessions/{session_id}", { params: { path: { session_id: id } } }).catch(() => undefined);
  return found?.data;
}
