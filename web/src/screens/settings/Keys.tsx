import { KeyRound, Plus } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { plural } from "@/lib/format";
import { Badge } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { More } from "@/ui/More";
import { Time, useNow } from "@/ui/Time";

import { NewKey } from "./NewKey";
import { Ask, Line, Lines, Loaded } from "./parts";
import { groupScopes } from "./scopes";
import { refresh } from "./task";

type Key = Schemas["ApiKeyRead"];

export default function Keys() {
  const keys = $api.useInfiniteQuery("get", "/api/keys", { params: { query: { limit: 50 } } }, paged);
  const may = useMay("keys:write");
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Key>();
  const create = may && (
    <Button size="small" look="primary" icon={<Plus size={14} />} onClick={() => setCreating(true)}>
      New API key
    </Button>
  );
  return (
    <>
      <Section
        title="API keys"
        note="A key acts for the tenant, within its scopes. Only its last four characters can be seen later."
        actions={
          <>
            <CopyCurl method="GET" path="/api/keys" />
            {create}
          </>
        }
      >
        <Loaded query={keys}>
          {(found) =>
            itemsOf(found).length === 0 ? (
              <Empty icon={KeyRound} title="No API key yet" action={create}>
                With one, your own programs and any OpenAI or Anthropic SDK can work with AgentOS.
              </Empty>
            ) : (
              <Lines>
                {itemsOf(found).map((key) => (
                  <KeyLine key={key.id} apiKey={key} onRevoke={may ? () => setRevoking(key) : undefined} />
                ))}
              </Lines>
            )
          }
        </Loaded>
        <More query={keys} />
      </Section>
      {creating && <NewKey onClose={() => setCreating(false)} />}
      {revoking && (
        <Ask
          title={`Revoke ${revoking.name}?`}
          action="Revoke"
          onClose={() => setRevoking(undefined)}
          onConfirm={async () => {
            await api.DELETE("/api/keys/{key_id}", { params: { path: { key_id: revoking.id } } });
            await refresh("/api/keys", "/api/plan");
          }}
        >
          <p>Whatever uses the key that ends with {revoking.last_four} is refused within a second. This cannot be taken back.</p>
          <p>What was made with it stays.</p>
        </Ask>
      )}
    </>
  );
}

function KeyLine({ apiKey, onRevoke }: { apiKey: Key; onRevoke: (() => void) | undefined }) {
  const now = useNow();
  const [open, setOpen] = useState(false);
  const isOver = apiKey.expires_at !== null && new Date(apiKey.expires_at).getTime() <= now;
  return (
    <Line
      title={
        <>
          {apiKey.name}
          <code className="text-xs text-faint" title={`Ends with ${apiKey.last_four}`}>
            …{apiKey.last_four}
          </code>
          {apiKey.revoked_at ? <Badge tone="bad">Revoked</Badge> : isOver && <Badge tone="warn">Expired</Badge>}
        </>
      }
      note={<KeyNote apiKey={apiKey} isOver={isOver} />}
      actions={
        <>
          <Button size="small" look="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
            {plural(apiKey.scopes.length, "scope")}
          </Button>
          {!apiKey.revoked_at && onRevoke && (
            <Button size="small" look="quiet" onClick={onRevoke} aria-label={`Revoke ${apiKey.name}`}>
              Revoke
            </Button>
          )}
        </>
      }
    >
      {open && (
        <ul className="grid gap-x-6 gap-y-1 rounded-md bg-sunken p-3 text-xs text-soft sm:grid-cols-2">
          {groupScopes(apiKey.scopes).flatMap((group) => group.scopes.map((each) => <li key={each.scope}>{each.words}</li>))}
        </ul>
      )}
    </Line>
  );
}

function KeyNote({ apiKey, isOver }: { apiKey: Key; isOver: boolean }) {
  return (
    <>
      By {apiKey.created_by} <Time at={apiKey.created_at} />,{" "}
      {apiKey.last_used_at ? (
        <>
          used <Time at={apiKey.last_used_at} />
        </>
      ) : (
        "never used"
      )}
      {apiKey.revoked_at ? (
        <>
          , revoked <Time at={apiKey.revoked_at} />
        </>
      ) : (
        apiKey.expires_at && (
          <>
            , {isOver ? "expired" : "expires"} <Time at={apiKey.expires_at} />
          </>
        )
      )}
    </>
  );
}
