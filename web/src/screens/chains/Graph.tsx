import "@xyflow/react/dist/base.css";

import { Background, Controls, type Edge, Handle, type Node, type NodeProps, Position, ReactFlow } from "@xyflow/react";
import clsx from "clsx";
import { useMemo } from "react";

import { useTheme } from "@/shell/theme";
import { CHAIN_STATES, ChainBadge } from "@/ui/states";

import { NODE, place } from "./layout";

export interface GraphNode {
  id: string;
  needs: string[];
  state: keyof typeof CHAIN_STATES;
  /** A line below its name: what it cost, how long it took. */
  note?: string;
}

type Shown = Node<{ node: GraphNode; chosen: boolean }, "chain">;

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
        <span className="truncate text-xs text-faint tabular">{node.note}</span>
      </span>
      <Handle type="source" position={Position.Right} className="!border-line !bg-line-strong" />
    </div>
  );
}

const TYPES = { chain: ChainNode };

interface Props {
  nodes: GraphNode[];
  chosen?: string | undefined;
  onChoose?: (id: string) => void;
}

/** A chain as a picture. What it says is in the list as well. */
export default function Graph({ nodes, chosen, onChoose }: Props) {
  const { dark } = useTheme();
  const shape = JSON.stringify(nodes.map((node) => [node.id, node.needs]));
  const placed = useMemo(() => place(Object.fromEntries(JSON.parse(shape) as [string, string[]][])), [shape]);
  const shown = useMemo<Shown[]>(() => {
    const byId = new Map(nodes.map((node) => [node.id, node]));
    return placed.map(({ id, x, y }) => ({
      id,
      type: "chain",
      position: { x, y },
      data: { node: byId.get(id)!, chosen: id === chosen },
      ariaLabel: `${id}: ${CHAIN_STATES[byId.get(id)!.state].word}`,
    }));
  }, [nodes, placed, chosen]);
  const edges = useMemo<Edge[]>(
    () =>
      nodes.flatMap((node) =>
        node.needs.map((need) => ({
          id: `${need}>${node.id}`,
          source: need,
          target: node.id,
          animated: node.state === "RUNNING",
          focusable: false,
        })),
      ),
    [nodes],
  );
  return (
    <div className="h-[28rem] overflow-hidden rounded-lg border border-line bg-sunken">
      <ReactFlow
        nodes={shown}
        edges={edges}
        nodeTypes={TYPES}
        colorMode={dark ? "dark" : "light"}
        fitView
        fitViewOptions={{ maxZoom: 1, padding: 0.1 }}
        minZoom={0.2}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={onChoose !== undefined}
        edgesFocusable={false}
        proOptions={{ hideAttribution: false }}
        onNodeClick={(_, node) => onChoose?.(node.id)}
        onNodesChange={(changes) => {
          for (const change of changes) if (change.type === "select" && change.selected) onChoose?.(change.id);
        }}
        defaultEdgeOptions={{ style: { stroke: "var(--line-strong)" } }}
      >
        <Background color="var(--line)" bgColor="var(--sunken)" />
        <Controls showInteractive={false} position="bottom-right" />
      </ReactFlow>
    </div>
  );
}
