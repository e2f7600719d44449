import { graphlib, layout } from "@dagrejs/dagre";

export const NODE = { width: 232, height: 80 };

export interface Point {
  x: number;
  y: number;
}

export interface Picture {
  nodes: (Point & { id: string })[];
  /** Each with the points it goes through, so that it passes beside nodes and not behind them. */
  edges: { from: string; to: string; points: Point[] }[];
}

/** Where everything goes, left to right in the order it runs. */
export function draw(needs: Record<string, string[]>): Picture {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 36, edgesep: 24, ranksep: 72, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of Object.keys(needs)) graph.setNode(id, { ...NODE });
  for (const [id, before] of Object.entries(needs)) {
    for (const need of before) if (need in needs) graph.setEdge(need, id);
  }
  layout(graph);
  return {
    nodes: Object.keys(needs).map((id) => {
      const { x, y } = graph.node(id) as Point;
      return { id, x: x - NODE.width / 2, y: y - NODE.height / 2 };
    }),
    edges: graph.edges().map(({ v, w }) => ({ from: v, to: w, points: (graph.edge(v, w) as { points: Point[] }).points })),
  };
}

/** A line through points that bends softly at each. */
export function pathThrough(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x},${first.y}`;
  let before = first;
  for (const point of rest) {
    const middle = (before.x + point.x) / 2;
    path += ` C${middle},${before.y} ${middle},${point.y} ${point.x},${point.y}`;
    before = point;
  }
  return path;
}
