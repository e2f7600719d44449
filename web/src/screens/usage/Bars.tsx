import "uplot/dist/uPlot.min.css";

import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";

import { useTheme } from "@/shell/theme";

export interface Stripe {
  name: string;
  /** A colour token, e.g. "accent". */
  colour: "accent" | "line-strong" | "good";
  values: number[];
}

interface Props {
  /** What the chart shows, for those who do not see it. */
  label: string;
  /** The names of the bars, from left to right. */
  names: string[];
  /** What each bar is made of, from its foot up. */
  stripes: Stripe[];
  format: (value: number) => string;
  onPoint: (index: number | undefined) => void;
}

const HEIGHT = 200;

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Bars by day, in the colours of the theme, as wide as there is room. */
export default function Bars({ label, names, stripes, format, onPoint }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(undefined);
  const { dark } = useTheme();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const ready = width > 0;
  useEffect(() => {
    if (!ready) return;
    const plot = new uPlot(optionsOf(names, stripes, format, onPoint, box.current!.clientWidth), dataOf(names, stripes), box.current!);
    chart.current = plot;
    return () => {
      plot.destroy();
      chart.current = undefined;
    };
    // `dark` is not read but decides what the tokens are.
  }, [ready, names, stripes, format, onPoint, dark]);
  useEffect(() => {
    if (ready) chart.current?.setSize({ width, height: HEIGHT });
  }, [ready, width]);
  return (
    <div
      ref={box}
      role="img"
      aria-label={label}
      className="h-[200px] min-w-0 overflow-hidden [&_.u-cursor-x]:!border-line-strong [&_.u-cursor-x]:!border-solid"
    />
  );
}

/** uPlot knows no stacks: the whole is drawn first, and what lies lower over it. */
function dataOf(names: string[], stripes: Stripe[]): uPlot.AlignedData {
  const sums: number[][] = [];
  for (const stripe of stripes) {
    const below = sums.at(-1);
    sums.push(stripe.values.map((value, index) => value + (below?.[index] ?? 0)));
  }
  return [names.map((_, index) => index), ...sums.toReversed()];
}

function optionsOf(
  names: string[],
  stripes: Stripe[],
  format: Props["format"],
  onPoint: Props["onPoint"],
  width: number,
): uPlot.Options {
  const text = { stroke: token("faint"), font: '11px "Inter Variable", system-ui, sans-serif' };
  const bars = uPlot.paths.bars!({ size: [0.7, 36, 1], radius: stripes.length === 1 ? 0.15 : 0 });
  return {
    width,
    height: HEIGHT,
    padding: [10, 16, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: false, range: () => [-0.5, names.length - 0.5] },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      {
        ...text,
        grid: { show: false },
        ticks: { show: false },
        gap: 4,
        size: 26,
        splits: (plot) => labelled(names.length, plot.width),
        values: (_, at) => at.map((index) => names[index] ?? ""),
      },
      {
        ...text,
        grid: { stroke: token("line"), width: 1 },
        ticks: { show: false },
        gap: 6,
        size: 62,
        space: 44,
        values: (_, at) => at.map(format),
      },
    ],
    series: [
      {},
      ...stripes.toReversed().map((stripe) => ({ label: stripe.name, fill: token(stripe.colour), width: 0, paths: bars, points: { show: false } })),
    ],
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? undefined)] },
  };
}

/** The bars that have room for their name, the last one always among them. */
function labelled(count: number, width: number): number[] {
  const step = Math.max(1, Math.ceil((count * 58) / Math.max(width - 62, 58)));
  const found: number[] = [];
  for (let index = count - 1; index >= 0; index -= step) found.unshift(index);
  return found;
}
