import { useRef } from "react";

import { $api } from "@/api/client";
import { ApprovalCard, type ApprovalHandle } from "@/screens/approvals/ApprovalCard";
import { useShortcut } from "@/shell/shortcuts";
import { Problem } from "@/ui/Problem";

/** What a session waits for a person to decide; nothing if it does not. */
export function Approvals({ sessionId }: { sessionId: string }) {
  const { data, error, refetch } = $api.useQuery("get", "/api/approvals", {
    params: { query: { session_id: sessionId } },
  });
  const first = useRef<ApprovalHandle>(null);
  // With several in sight nobody could know which one a key would decide.
  const alone = data?.items.length === 1;
  useShortcut("a", "Approve, or answer", () => first.current?.approve(), alone);
  useShortcut("r", "Reject", () => first.current?.reject(), alone);
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (!data?.items.length) return null;
  return (
    <section aria-label="Needs you" className="grid gap-3">
      {data.items.map((approval, index) => (
        <ApprovalCard key={approval.id} approval={approval} current {...(index === 0 ? { handle: first } : {})} />
      ))}
    </section>
  );
}
