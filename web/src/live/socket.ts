import { serverUrl } from "@/lib/base";

/** An event of the tenant, as docs/events.md describes it. */
export interface TenantEvent {
  seq: number;
  id: string;
  type: string;
  at: string;
  data: Record<string, unknown>;
}

/** A piece of a chat or of a session's words: said now, kept nowhere. */
export interface Piece {
  type: string;
  team_id?: string;
  session_id?: string;
  [field: string]: unknown;
}

export type LiveState = "connecting" | "live" | "away";

interface Hooks {
  event: (event: TenantEvent) => void;
  piece: (piece: Piece) => void;
  state: (state: LiveState) => void;
  /** Events were missed for good: what is shown may be old. */
  gap: () => void;
  /** The sign-in ran out; answers whether it could be renewed. */
  renew: () => Promise<boolean>;
}

const FIRST_WAIT = 400;
const LONGEST_WAIT = 15_000;
// The server says nothing on a quiet line; a ping finds out whether there still is one.
const PING_EVERY = 20_000;
const PONG_WITHIN = 8_000;
const CREDENTIAL_ENDED = 4401;

/** The one event socket of this tab: reconnects by itself and goes on where it was. */
export class EventSocket {
  private socket: WebSocket | undefined;
  private after: number | undefined;
  private wait = FIRST_WAIT;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pings: ReturnType<typeof setInterval> | undefined;
  private pong: ReturnType<typeof setTimeout> | undefined;
  // Orders that bring a chat or a session's words, and how many parts of the page want them.
  private watched = new Map<string, number>();
  private closed = false;

  constructor(private readonly hooks: Hooks) {}

  open(): void {
    this.closed = false;
    this.connect();
    addEventListener("online", this.hurry);
    document.addEventListener("visibilitychange", this.hurry);
  }

  close(): void {
    this.closed = true;
    removeEventListener("online", this.hurry);
    document.removeEventListener("visibilitychange", this.hurry);
    clearTimeout(this.timer);
    this.drop();
  }

  /** Also brings what is said in a chat or a session, until the answer is called. */
  watch(kind: "team" | "session", id: string): () => void {
    const suffix = kind === "team" ? "" : "_session";
    const order = JSON.stringify({ [`watch${suffix}`]: id });
    const watchers = this.watched.get(order) ?? 0;
    this.watched.set(order, watchers + 1);
    if (watchers === 0) this.say(order);
    return () => {
      const left = (this.watched.get(order) ?? 1) - 1;
      if (left > 0) this.watched.set(order, left);
      else if (this.watched.delete(order)) this.say(JSON.stringify({ [`unwatch${suffix}`]: id }));
    };
  }

  private say(text: string): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(text);
  }

  private connect(): void {
    this.hooks.state("connecting");
    const query = this.after === undefined ? "" : `?after=${this.after}`;
    const socket = new WebSocket(serverUrl(`/api/events${query}`).replace(/^http/, "ws"));
    this.socket = socket;
    socket.onopen = () => {
      this.wait = FIRST_WAIT;
      this.watched.forEach((_, order) => socket.send(order));
      this.pings = setInterval(this.ping, PING_EVERY);
    };
    socket.onmessage = ({ data }) => this.receive(String(data));
    socket.onclose = ({ code }) => void this.lost(socket, code);
  }

  private receive(text: string): void {
    clearTimeout(this.pong);
    this.pong = undefined;
    if (text === "pong") return;
    for (const line of text.split("\n")) this.take(JSON.parse(line) as TenantEvent | Piece);
  }

  private take(document: TenantEvent | Piece): void {
    if (isEvent(document)) {
      // A resumed stream may begin with what came just before the connection was lost.
      if (this.after !== undefined && document.seq <= this.after) return;
      this.after = document.seq;
      this.hooks.event(document);
    } else if (document.type === "stream.live") {
      this.after = Math.max(this.after ?? 0, Number(document.after));
      this.hooks.state("live");
    } else if (document.type === "history.truncated") {
      this.hooks.gap();
    } else {
      this.hooks.piece(document);
    }
  }

  private async lost(socket: WebSocket, code: number): Promise<void> {
    if (socket !== this.socket || this.closed) return;
    this.drop();
    this.hooks.state("away");
    // A handshake that is refused closes with 1006 and says no more: the sign-in may have ended.
    if (code === CREDENTIAL_ENDED || code === 1006) {
      const renewed = await this.hooks.renew().catch(() => undefined);
      if (renewed === false) return;
    }
    if (this.closed || this.socket !== undefined) return;
    this.timer = setTimeout(() => this.connect(), this.wait * (0.7 + 0.6 * Math.random()));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  private drop(): void {
    clearInterval(this.pings);
    clearTimeout(this.pong);
    this.pong = undefined;
    const socket = this.socket;
    this.socket = undefined;
    socket?.close();
  }

  private ping = (): void => {
    this.say("ping");
    this.pong ??= setTimeout(() => this.socket?.readyState === WebSocket.OPEN && this.again(), PONG_WITHIN);
  };

  /** A tab that wakes up, or a machine that is online again, does not wait its turn. */
  private hurry = (): void => {
    if (document.visibilityState === "hidden") return;
    if (this.socket?.readyState === WebSocket.OPEN) this.ping();
    else if (this.socket === undefined) {
      clearTimeout(this.timer);
      this.wait = FIRST_WAIT;
      this.connect();
    }
  };

  private again(): void {
    this.drop();
    this.hooks.state("away");
    this.connect();
  }
}

function isEvent(document: TenantEvent | Piece): document is TenantEvent {
  return typeof (document as TenantEvent).seq === "number" && "data" in document;
}
