import { graphlib, layout } from "@dagrejs/dagre";

export const NODE = { width: 208, height: 76 };

export interface Placed {
  id: string;
  x: number;
  y: number;
}

/** Where each node goes, left to right in the order they run, with lines that cross little. */
export function place(needs: Record<string, string[]>): Placed[] {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 28, ranksep: 64, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of Object.keys(needs)) graph.setNode(id, { ...NODE });
  for (const [id, before] of Object.entries(needs)) {
    for (const need of before) if (need in needs) graph.setEdge(need, id);
  }
  layout(graph);
  return Object.keys(needs).map((id) => {
    const { x, y } = graph.node(id) as { x: number; y: number };
    return { id, x: x - NODE.width / 2, y: y - NODE.height / 2 };
  });
}
