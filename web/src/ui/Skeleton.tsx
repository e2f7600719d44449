import clsx from "clsx";

/** Keeps the place of something that is on its way. */
export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden className={clsx("animate-pulse-slow rounded-md bg-hover", className)} />;
}

/** Lines of a list that is on its way. */
export function SkeletonRows({ rows = 5, className = "h-14" }: { rows?: number; className?: string }) {
  return (
    <div role="status" aria-label="Loading" className="grid gap-2">
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} className={className} />
      ))}
    </div>
  );
}
