import { Pencil, Plus, Send, Trash2 } from "lucide-react";
import { useState } from "react";

import { $api } from "@/api/client";
import { queryClient } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { Button, IconButton } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { Confirm } from "@/ui/Dialog";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { tellProblem } from "@/ui/toasts";

import { AFTER } from "./postAction";
import { PostActionDialog } from "./PostActionDialog";
import { Switch } from "./Switch";

export type Source = { schedule_id: string } | { webhook_id: string };
type PostAction = Schemas["PostActionRead"];

/** The post-actions of a schedule or a webhook. */
export function usePostActions(source: Source) {
  return $api.useQuery("get", "/api/post-actions", { params: { query: { ...source, limit: 200 } } });
}

export function forgetPostActions(): void {
  void queryClient.invalidateQueries({ queryKey: ["get", "/api/post-actions"] });
}

/** The HTTP calls that follow each run. */
export function PostActions({ source, may }: { source: Source; may: boolean }) {
  const query = usePostActions(source);
  const [editing, setEditing] = useState<PostAction | "new">();
  return (
    <Section
      title="Post-actions"
      note="HTTP calls that follow a run."
      actions={
        may && (
          <Button size="small" icon={<Plus size={14} />} onClick={() => setEditing("new")}>
            Add
          </Button>
        )
      }
    >
      {query.isPending && <Skeleton className="h-12" />}
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.data?.items.length === 0 && <p className="text-sm text-soft">None yet. Add one to tell another system what came of each run.</p>}
      {query.data && query.data.items.length > 0 && (
        <ul className="-mx-4 -my-4 divide-y divide-line">
          {query.data.items.map((action) => (
            <Row key={action.id} action={action} may={may} onEdit={() => setEditing(action)} />
          ))}
        </ul>
      )}
      {editing && <PostActionDialog source={source} action={editing === "new" ? undefined : editing} onClose={() => setEditing(undefined)} />}
    </Section>
  );
}

function Row({ action, may, onEdit }: { action: PostAction; may: boolean; onEdit: () => void }) {
  const [removing, setRemoving] = useState(false);
  const params = { path: { post_action_id: action.id } };
  const update = $api.useMutation("patch", "/api/post-actions/{post_action_id}", { onSuccess: forgetPostActions, onError: tellProblem });
  const remove = $api.useMutation("delete", "/api/post-actions/{post_action_id}", { onSuccess: forgetPostActions });
  return (
    <li className="grid gap-1 px-4 py-3">
      <div className="flex items-center gap-2">
        <Send size={14} aria-hidden className="shrink-0 text-faint" />
        <span className="min-w-0 flex-1 truncate text-sm font-medium">{action.name}</span>
        {may && (
          <>
            <Switch
              label={`${action.name} is on`}
              on={action.enabled}
              busy={update.isPending}
              onChange={(enabled) => update.mutate({ params, body: { enabled } })}
            />
            <IconButton size="small" label={`Edit ${action.name}`} onClick={onEdit}>
              <Pencil size={14} />
            </IconButton>
            <IconButton size="small" label={`Remove ${action.name}`} onClick={() => setRemoving(true)}>
              <Trash2 size={14} />
            </IconButton>
          </>
        )}
      </div>
      <p className="text-xs text-soft">
        {AFTER[action.after]}
        {!action.enabled && ", switched off"}
      </p>
      <p className="truncate text-xs text-faint" title={action.url}>
        <code>
          {action.method} {action.url}
        </code>
      </p>
      {removing && (
        <Confirm
          title={`Remove ${action.name}`}
          action="Remove"
          danger
          busy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate({ params })}
          onClose={() => setRemoving(false)}
        >
          <p>It is not called any more, and what waits to be delivered is dropped. Runs stay.</p>
        </Confirm>
      )}
    </li>
  );
}
