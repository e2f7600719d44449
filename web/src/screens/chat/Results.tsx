import { Link } from "@tanstack/react-router";
import { SearchX } from "lucide-react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { plural } from "@/lib/format";
import { Empty } from "@/ui/Empty";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { MessageBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

import { useTeam } from "./agents";
import { excerpt } from "./excerpt";

/** The messages that hold the words, each as a way to its place in the conversation. */
export function Results({ q }: { q: string }) {
  const team = useTeam();
  const found = $api.useInfiniteQuery(
    "get",
    "/api/teams/{team_id}/messages",
    { params: { path: { team_id: team.id }, query: { q, limit: 30 } } },
    paged,
  );
  const messages = itemsOf(found.data);
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <div className="mx-auto grid w-full max-w-3xl gap-3 px-4 py-6">
        <h2 className="text-sm font-semibold" role="status">
          {found.isSuccess ? `${plural(messages.length, "message")}${found.hasNextPage ? " and more" : ""} with “${q}”` : "Searching"}
        </h2>
        {found.isPending && <SkeletonRows />}
        {found.error ? <Problem error={found.error} retry={() => void found.refetch()} /> : null}
        {found.isSuccess && messages.length === 0 && (
          <Empty icon={SearchX} title="Nothing found">
            Messages and answers are searched for exactly these words, in any case.
          </Empty>
        )}
        <ul className="grid gap-2">
          {messages.map((message) => (
            <li key={message.id}>
              <Link
                to="/chat/$teamId"
                params={{ teamId: team.id }}
                search={{ message: message.id }}
                className="grid gap-1.5 rounded-lg border border-line bg-surface p-3.5 shadow-card hover:bg-hover"
              >
                <span className="flex items-center gap-2 text-xs text-faint">
                  <span className="truncate">{message.author}</span>
                  <Time at={message.created_at} />
                  <span className="ml-auto">
                    <MessageBadge state={message.state} />
                  </span>
                </span>
                <span className="font-medium break-words">
                  <Marked text={excerpt(message.text, q)} words={q} />
                </span>
                {message.answer && (
                  <span className="text-sm break-words text-soft">
                    <Marked text={excerpt(message.answer, q)} words={q} />
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
        <More query={found} />
      </div>
    </div>
  );
}

function Marked({ text, words }: { text: string; words: string }) {
  const at = text.toLowerCase().indexOf(words.toLowerCase());
  if (at === -1) return text;
  const end = at + words.length;
  return (
    <>
      {text.slice(0, at)}
      <mark className="rounded-sm bg-warn-soft text-ink">{text.slice(at, end)}</mark>
      {text.slice(end)}
    </>
  );
}
