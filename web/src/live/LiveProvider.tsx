import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";

import { refreshSignIn } from "@/api/client";
import { queryClient } from "@/api/queries";

import { Invalidation } from "./invalidation";
import { EventSocket, type LiveState, type Piece, type TenantEvent } from "./socket";

type Hear<T> = (heard: T) => void;

interface Live {
  state: LiveState;
  events: Set<Hear<TenantEvent>>;
  pieces: Set<Hear<Piece>>;
  watch: (kind: "team" | "session", id: string) => () => void;
}

const Context = createContext<Live | null>(null);

/** Keeps one event socket open for everything below it, and what it shows up to date. */
export function LiveProvider({ children, onEnded }: { children: ReactNode; onEnded: () => void }) {
  const [state, setState] = useState<LiveState>("connecting");
  const events = useRef(new Set<Hear<TenantEvent>>()).current;
  const pieces = useRef(new Set<Hear<Piece>>()).current;
  const ended = useRef(onEnded);
  ended.current = onEnded;
  const socket = useMemo(() => {
    const invalidation = new Invalidation(queryClient);
    return new EventSocket({
      event: (event) => {
        invalidation.add(event);
        events.forEach((hear) => hear(event));
      },
      piece: (piece) => pieces.forEach((hear) => hear(piece)),
      state: setState,
      gap: () => invalidation.everything(),
      renew: async () => {
        const renewed = await refreshSignIn();
        if (!renewed) ended.current();
        return renewed;
      },
    });
  }, [events, pieces]);
  useEffect(() => {
    socket.open();
    return () => socket.close();
  }, [socket]);
  // The same for as long as the socket is: else each change of state would end and begin all watching.
  const watch = useCallback<Live["watch"]>((kind, id) => socket.watch(kind, id), [socket]);
  const live = useMemo<Live>(() => ({ state, events, pieces, watch }), [state, events, pieces, watch]);
  return <Context value={live}>{children}</Context>;
}

function useLiveContext(): Live {
  const live = useContext(Context);
  if (live === null) throw new Error("useLive outside of LiveProvider");
  return live;
}

/** Whether events arrive as they happen. */
export function useLiveState(): LiveState {
  return useLiveContext().state;
}

/** Calls `hear` with each event whose type begins with one of `types`. */
export function useEvents(types: string[], hear: Hear<TenantEvent>): void {
  const { events } = useLiveContext();
  const latest = useRef(hear);
  latest.current = hear;
  const wanted = types.join(" ");
  useEffect(() => {
    const listener = (event: TenantEvent) => {
      if (wanted.split(" ").some((type) => event.type.startsWith(type))) latest.current(event);
    };
    events.add(listener);
    return () => void events.delete(listener);
  }, [events, wanted]);
}

function usePieces(kind: "team" | "session", id: string | undefined, hear: Hear<Piece>): void {
  const { pieces, watch } = useLiveContext();
  const latest = useRef(hear);
  latest.current = hear;
  useEffect(() => {
    if (id === undefined) return;
    const field = `${kind}_id`;
    const listener = (piece: Piece) => {
      if (piece[field] === id) latest.current(piece);
    };
    pieces.add(listener);
    const unwatch = watch(kind, id);
    return () => {
      pieces.delete(listener);
      unwatch();
    };
  }, [kind, id, pieces, watch]);
}

/** Calls `hear` with each `message.chunk` and `message.activity` of a team as it is said. */
export function useTeamChat(teamId: string | undefined, hear: Hear<Piece>): void {
  usePieces("team", teamId, hear);
}

/** Calls `hear` with each `session.words` of a session as the model says them. */
export function useSessionWords(sessionId: string | undefined, hear: Hear<Piece>): void {
  usePieces("session", sessionId, hear);
}
