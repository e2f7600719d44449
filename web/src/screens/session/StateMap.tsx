import clsx from "clsx";
import type { ReactNode } from "react";

import type { Schemas } from "@/api/types";
import { SESSION_STATES } from "@/ui/states";

type State = Schemas["State"];

const WIDTH = 112;
const HEIGHT = 28;
const ACROSS = 154;
const DOWN = 52;

/** Column and row of each state in the diagram. */
const PLACES: Record<State, [number, number]> = {
  CREATED: [0, 0],
  QUEUED: [1, 0],
  RUNNING: [2, 0],
  CHECKPOINT: [3, 0],
  GATE_CHECK: [4, 0],
  COMPLETE: [5, 0],
  PAUSED: [2, 1],
  ROLLED_BACK: [3, 1],
  ROLLBACK: [4, 1],
  FAILED: [5, 1],
};
const STATES = Object.keys(PLACES) as State[];
const ARROWS: [State, State][] = [
  ["CREATED", "QUEUED"],
  ["QUEUED", "RUNNING"],
  ["RUNNING", "CHECKPOINT"],
  ["CHECKPOINT", "GATE_CHECK"],
  ["GATE_CHECK", "COMPLETE"],
  ["RUNNING", "PAUSED"],
  ["GATE_CHECK", "FAILED"],
  ["FAILED", "ROLLBACK"],
  ["ROLLBACK", "ROLLED_BACK"],
];

interface Props {
  state: State;
  visited: Map<string, number>;
  /** What else there is to say about how it stands. */
  children?: ReactNode;
}

/** Where a session is among the states that there are, and where it has been. */
export function StateMap({ state, visited, children }: Props) {
  return (
    <figure className="flex flex-wrap items-center gap-x-8 gap-y-3 rounded-lg border border-line bg-surface px-4 py-3 shadow-card">
      <figcaption className="sr-only">{inWords(state, visited)}</figcaption>
      <div aria-hidden className="min-w-0 flex-1 basis-[36rem] max-md:hidden">
        <Diagram state={state} visited={visited} />
      </div>
      <ol aria-hidden className="flex flex-wrap items-center gap-1.5 md:hidden">
        {STATES.filter((each) => PLACES[each][1] === 0 || visited.has(each) || each === state).map((each) => (
          <li
            key={each}
            className={clsx(
              "rounded-full px-2 py-0.5 text-xs",
              each === state && "bg-accent font-semibold text-on-accent",
              each !== state && visited.has(each) && "bg-accent-soft text-accent-ink",
              each !== state && !visited.has(each) && "bg-sunken text-faint",
            )}
          >
            {each !== state && visited.has(each) ? "✓ " : ""}
            {SESSION_STATES[each].word}
          </li>
        ))}
      </ol>
      {children}
    </figure>
  );
}

function inWords(state: State, visited: Map<string, number>): string {
  const before = STATES.filter((each) => each !== state && visited.has(each)).map((each) => SESSION_STATES[each].word.toLowerCase());
  const now = `State: ${SESSION_STATES[state].word.toLowerCase()}.`;
  return before.length ? `${now} It has been ${before.join(", ")}.` : now;
}

function Diagram({ state, visited }: { state: State; visited: Map<string, number> }) {
  return (
    <svg viewBox={`-4 -4 ${5 * ACROSS + WIDTH + 8} ${DOWN + HEIGHT + 8}`} className="mx-auto h-auto w-full max-w-3xl">
      <defs>
        <marker id="state-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M1 1 L7 4 L1 7" fill="none" stroke="context-stroke" strokeWidth="1.4" />
        </marker>
      </defs>
      {ARROWS.map(([from, to]) => (
        <path
          key={`${from}-${to}`}
          d={arrow(from, to)}
          fill="none"
          markerEnd="url(#state-arrow)"
          className={visited.has(from) && visited.has(to) ? "stroke-accent" : "stroke-line-strong"}
          strokeWidth={visited.has(from) && visited.has(to) ? 1.8 : 1}
          strokeDasharray={visited.has(from) && visited.has(to) ? undefined : "3 3"}
        />
      ))}
      {STATES.map((each) => (
        <Node key={each} state={each} current={each === state} times={visited.get(each) ?? 0} />
      ))}
    </svg>
  );
}

function arrow(from: State, to: State): string {
  const [fromColumn, fromRow] = PLACES[from];
  const [toColumn, toRow] = PLACES[to];
  const x = (column: number) => column * ACROSS;
  const middle = (row: number) => row * DOWN + HEIGHT / 2;
  if (fromRow === toRow) {
    const rightwards = toColumn > fromColumn;
    const start = x(fromColumn) + (rightwards ? WIDTH : 0);
    const end = x(toColumn) + (rightwards ? -2 : WIDTH + 2);
    return `M${start} ${middle(fromRow)} H${end}`;
  }
  if (fromColumn === toColumn) return `M${x(fromColumn) + WIDTH / 2} ${HEIGHT} V${DOWN - 2}`;
  return `M${x(fromColumn) + WIDTH * 0.75} ${HEIGHT} L${x(toColumn) + WIDTH * 0.25} ${DOWN - 2}`;
}

function Node({ state, current, times }: { state: State; current: boolean; times: number }) {
  const [column, row] = PLACES[state];
  const { word, alive } = SESSION_STATES[state];
  const often = times > 1 ? ` ×${times}` : "";
  return (
    <g transform={`translate(${column * ACROSS} ${row * DOWN})`}>
      {current && <rect x={-3} y={-3} width={WIDTH + 6} height={HEIGHT + 6} rx={17} className={clsx("fill-none stroke-accent", alive && "animate-pulse-slow")} strokeWidth={1.5} />}
      <rect
        width={WIDTH}
        height={HEIGHT}
        rx={14}
        className={current ? "fill-accent" : times > 0 ? "fill-accent-soft stroke-accent" : "fill-surface stroke-line-strong"}
        strokeDasharray={times > 0 || current ? undefined : "3 3"}
      />
      <text
        x={WIDTH / 2}
        y={HEIGHT / 2 + 4.5}
        textAnchor="middle"
        fontSize={12.5}
        className={current ? "fill-on-accent font-semibold" : times > 0 ? "fill-accent-ink font-medium" : "fill-faint"}
      >
        {!current && times > 0 ? `✓ ${word}` : word}
        {often}
      </text>
    </g>
  );
}
