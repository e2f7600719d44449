import { Link } from "@tanstack/react-router";

import { $api } from "@/api/client";
import { formatMoney } from "@/lib/format";
import { Section } from "@/ui/Card";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { MessageBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

import type { TeamDetails } from "../teamQueries";

/** What the team was asked last, each leading to its place in the chat. */
export function RecentMessages({ team }: { team: TeamDetails }) {
  const query = $api.useQuery("get", "/api/teams/{team_id}/messages", { params: { path: { team_id: team.id }, query: { limit: 5 } } });
  const messages = query.data?.items ?? [];
  return (
    <Section
      title="Recent messages"
      actions={
        <Link to="/chat/$teamId" params={{ teamId: team.id }} className="rounded-sm py-1 text-sm text-accent-ink hover:underline">
          Open the chat
        </Link>
      }
    >
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isPending && <SkeletonRows rows={3} className="h-12" />}
      {query.isSuccess && messages.length === 0 && <p className="text-sm text-soft">Nobody has asked it anything yet.</p>}
      <ul className="divide-y divide-line not-empty:-my-2">
        {messages.map((message) => (
          <li key={message.id} className="flex items-start justify-between gap-3 py-2.5">
            <div className="min-w-0">
              <Link to="/chat/$teamId" params={{ teamId: team.id }} search={{ message: message.id }} className="line-clamp-1 rounded-sm text-sm font-medium break-all hover:text-accent-ink hover:underline">
                {message.text}
              </Link>
              <p className="line-clamp-1 text-xs break-all text-soft">{message.answer ?? message.error ?? "No answer yet."}</p>
              <p className="text-xs text-faint">
                {message.author} · <Time at={message.created_at} />
                {message.cost_micros > 0 && ` · ${formatMoney(message.cost_micros)}`}
              </p>
            </div>
            <MessageBadge state={message.state} />
          </li>
        ))}
      </ul>
    </Section>
  );
}
