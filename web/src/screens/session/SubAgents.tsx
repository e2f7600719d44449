import { Link } from "@tanstack/react-router";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { formatMoney } from "@/lib/format";
import { Section } from "@/ui/Card";
import { More } from "@/ui/More";
import { SessionBadge } from "@/ui/states";

/** The sessions that a session has started; nothing if there are none. */
export function SubAgents({ sessionId }: { sessionId: string }) {
  const query = $api.useInfiniteQuery("get", "/api/sessions", { params: { query: { parent_id: sessionId } } }, paged);
  const children = itemsOf(query.data);
  if (children.length === 0) return null;
  return (
    <Section title="Sub-agents" note="Sessions that this one has started.">
      <ul className="grid gap-1">
        {children.map((child) => (
          <li key={child.id}>
            <Link to="/sessions/$sessionId" params={{ sessionId: child.id }} className="flex min-h-10 flex-wrap items-center gap-x-3 gap-y-1 rounded-md px-2 py-1 text-sm hover:bg-hover">
              <SessionBadge session={child} />
              <span className="min-w-0 flex-1 break-words">{child.title}</span>
              <span className="text-xs tabular text-faint">{formatMoney(child.cost_micros)}</span>
            </Link>
          </li>
        ))}
      </ul>
      <More query={query} />
    </Section>
  );
}
