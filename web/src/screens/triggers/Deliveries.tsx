import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { plural } from "@/lib/format";
import { Badge, type Tone } from "@/ui/Badge";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Time } from "@/ui/Time";

type Delivery = Schemas["DeliveryRead"];

const STATES: Record<Delivery["state"], { tone: Tone; word: string }> = {
  waiting: { tone: "info", word: "Waiting" },
  delivered: { tone: "good", word: "Delivered" },
  failed: { tone: "bad", word: "Failed" },
};

/** What became of the post-actions of one run. */
export function Deliveries({ runId, actions }: { runId: string; actions: Schemas["PostActionRead"][] }) {
  const query = $api.useQuery("get", "/api/runs/{run_id}/deliveries", { params: { path: { run_id: runId } } });
  if (query.isPending) return <Skeleton className="h-6 w-48" />;
  if (query.isError) return <Problem error={query.error} retry={() => void query.refetch()} />;
  if (query.data.length === 0) return null;
  return (
    <div className="grid gap-1">
      <p className="text-xs text-faint">Post-actions</p>
      <ul className="divide-y divide-line rounded-md border border-line bg-surface">
        {query.data.map((delivery) => (
          <li key={delivery.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-3 py-2 text-sm">
            <span className="font-medium">{actions.find((action) => action.id === delivery.post_action_id)?.name ?? "Removed post-action"}</span>
            <Badge tone={STATES[delivery.state].tone} dot alive={delivery.state === "waiting"}>
              {STATES[delivery.state].word}
            </Badge>
            <span className="text-soft">
              {plural(delivery.attempts, "attempt")}
              {delivery.status !== null && `, answered ${delivery.status}`}
            </span>
            {delivery.state === "waiting" && delivery.next_at && (
              <span className="text-soft">
                tries again {Date.parse(delivery.next_at) - Date.now() < 10_000 ? "at once" : <Time at={delivery.next_at} />}
              </span>
            )}
            {delivery.error && <span className="w-full text-xs break-words text-bad">{delivery.error}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
