import "@xyflow/react/dist/base.css";

import { Background, BaseEdge, Controls, type Edge, type EdgeProps, Handle, type Node, type NodeProps, Position, ReactFlow } from "@xyflow/react";
import clsx from "clsx";
import { useMemo } from "react";

import { useTheme } from "@/shell/theme";
import { CHAIN_STATES, ChainBadge } from "@/ui/states";

import { draw, NODE, pathThrough, type Point } from "./layout";

export interface GraphNode {
  id: string;
  needs: string[];
  state: keyof typeof CHAIN_STATES;
  /** A line below its name: what it cost, how long it took. */
  note?: string;
}

type Shown = Node<{ node: GraphNode; chosen: boolean }, "chain">;
type Line = Edge<{ points: Point[] }, "line">;

function ChainNode({ data: { node, chosen } }: NodeProps<Shown>) {
  return (
    <div
      className={clsx("grid content-between rounded-lg border bg-surface p-3 shadow-card", chosen ? "border-accent" : "border-line")}
      style={NODE}
    >
      <Handle type="target" position={Position.Left} className="!border-line !bg-line-strong" />
      <span className="truncate text-sm font-medium">{node.id}</span>
      <span className="flex items-center justify-between gap-2">
        <ChainBadge state={node.state} />
        <span className="min-w-0 truncate text-xs text-faint tabular">{node.note}</span>
      </span>
      <Handle type="source" position={Position.Right} className="!border-line !bg-line-strong" />
    </div>
  );
}

function LineEdge({ data, sourceX, sourceY, targetX, targetY }: EdgeProps<Line>) {
  const inner = data?.points.slice(1, -1) ?? [];
  return <BaseEdge path={pathThrough([{ x: sourceX, y: sourceY }, ...inner, { x: targetX, y: targetY }])} style={{ stroke: "var(--line-strong)" }} />;
}

const NODE_TYPES = { chain: ChainNode };
const EDGE_TYPES = { line: LineEdge };

interface Props {
  nodes: GraphNode[];
  chosen?: string | undefined;
  onChoose?: (id: string) => void;
}

/** A chain as a picture. What it says is in the list as well. */
export default function Graph({ nodes, chosen, onChoose }: Props) {
  const { dark } = useTheme();
  const shape = JSON.stringify(nodes.map((node) => [node.id, node.needs]));
  const picture = useMemo(() => draw(Object.fromEntries(JSON.parse(shape) as [string, string[]][])), [shape]);
  const shown = useMemo<Shown[]>(() => {
    const byId = new Map(nodes.map((node) => [node.id, node]));
    return picture.nodes.map(({ id, x, y }) => ({
      id,
      type: "chain",
      position: { x, y },
      data: { node: byId.get(id)!, chosen: id === chosen },
      ariaLabel: `${id}: ${CHAIN_STATES[byId.get(id)!.state].word}`,
    }));
  }, [nodes, picture, chosen]);
  const edges = useMemo<Line[]>(() => {
    const running = new Set(nodes.filter((node) => node.state === "RUNNING").map((node) => node.id));
    return picture.edges.map(({ from, to, points }) => ({
      id: `${from}>${to}`,
      type: "line",
      source: from,
      target: to,
      data: { points },
      animated: running.has(to),
      focusable: false,
    }));
  }, [nodes, picture]);
  return (
    <div className="h-[28rem] overflow-hidden rounded-lg border border-line bg-sunken">
      <ReactFlow
        nodes={shown}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        colorMode={dark ? "dark" : "light"}
        fitView
        fitViewOptions={{ maxZoom: 1, padding: 0.1 }}
        minZoom={0.2}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={onChoose !== undefined}
        edgesFocusable={false}
        proOptions={{ hideAttribution: true }}
        onNodeClick={(_, node) => onChoose?.(node.id)}
        onNodesChange={(changes) => {
          for (const change of changes) if (change.type === "select" && change.selected) onChoose?.(change.id);
        }}
      >
        <Background color="var(--line)" bgColor="var(--sunken)" />
        <Controls showInteractive={false} position="bottom-right" />
      </ReactFlow>
    </div>
  );
}
