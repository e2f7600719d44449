import { $api } from "@/api/client";
import { ApprovalCard } from "@/screens/approvals/ApprovalCard";

import { useTeam } from "./agents";

/** What this team waits for a person with, to be decided right here. */
export function Approvals() {
  const team = useTeam();
  const waiting = $api.useQuery("get", "/api/approvals", {
    params: { query: { team_id: team.id, state: "waiting", limit: 20 } },
  });
  if (!waiting.data?.items.length) return null;
  return (
    <div className="grid gap-3">
      {waiting.data.items.map((approval) => (
        <ApprovalCard key={approval.id} approval={approval} />
      ))}
    </div>
  );
}
