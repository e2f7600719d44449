import { Plus, RefreshCw, ShieldCheck } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { TextArea, TextField } from "@/ui/Field";
import { More } from "@/ui/More";
import { Time } from "@/ui/Time";
import { tell } from "@/ui/toasts";

import { Ask, FormDialog, Line, Lines, Loaded, textOf } from "./parts";
import { refresh } from "./task";

type Secret = Schemas["SecretRead"];
type Doing = { what: "store" } | { what: "replace" | "delete"; secret: Secret } | { what: "rotate" };

export default function Vault() {
  const secrets = $api.useInfiniteQuery("get", "/api/vault", { params: { query: { limit: 50 } } }, paged);
  const may = useMay("vault:write");
  const [doing, setDoing] = useState<Doing>();
  const close = () => setDoing(undefined);
  const store = may && (
    <Button size="small" look="primary" icon={<Plus size={14} />} onClick={() => setDoing({ what: "store" })}>
      Store a secret
    </Button>
  );
  return (
    <>
      <Section
        title="Secrets"
        note="They can be used and replaced, but never read back, not even by you."
        actions={
          <>
            <CopyCurl method="GET" path="/api/vault" />
            {store}
          </>
        }
      >
        <Loaded query={secrets}>
          {(found) =>
            itemsOf(found).length === 0 ? (
              <Empty icon={ShieldCheck} title="No secret yet" action={store}>
                Store a token or password here, and name it where a session, a team or a webhook needs it.
              </Empty>
            ) : (
              <Lines>
                {itemsOf(found).map((secret) => (
                  <SecretLine key={secret.id} secret={secret} may={may} onDo={(what) => setDoing({ what, secret })} />
                ))}
              </Lines>
            )
          }
        </Loaded>
        <More query={secrets} />
      </Section>
      {may && <Encryption onRotate={() => setDoing({ what: "rotate" })} />}
      {doing?.what === "store" && <Store onClose={close} />}
      {doing?.what === "replace" && <Store secret={doing.secret} onClose={close} />}
      {doing?.what === "delete" && <Delete secret={doing.secret} onClose={close} />}
      {doing?.what === "rotate" && <Rotate onClose={close} />}
    </>
  );
}

function SecretLine({ secret, may, onDo }: { secret: Secret; may: boolean; onDo: (what: "replace" | "delete") => void }) {
  return (
    <Line
      title={
        <>
          <span className="break-all">{secret.name}</span>
          {secret.last_four && <code className="text-xs text-faint" title={`Ends with ${secret.last_four}`}>…{secret.last_four}</code>}
        </>
      }
      note={
        <>
          Version {secret.version}, stored <Time at={secret.updated_at} />
          {secret.name.startsWith("provider-") && ", the key of a provider"}
        </>
      }
      actions={
        may && (
          <>
            <Button size="small" look="quiet" onClick={() => onDo("replace")} aria-label={`Replace ${secret.name}`}>
              Replace
            </Button>
            <Button size="small" look="quiet" onClick={() => onDo("delete")} aria-label={`Delete ${secret.name}`}>
              Delete
            </Button>
          </>
        )
      }
    />
  );
}

function Store({ secret, onClose }: { secret?: Secret; onClose: () => void }) {
  const send = async (fields: FormData) => {
    const name = secret?.name ?? textOf(fields, "name");
    // As it was typed: a space or a last line may belong to it.
    const value = String(fields.get("value")).replaceAll("\r\n", "\n");
    await api.PUT("/api/vault/{name}", { params: { path: { name } }, body: { value } });
    await refresh("/api/vault", "/api/plan");
  };
  return (
    <FormDialog title={secret ? `Replace ${secret.name}` : "Store a secret"} action={secret ? "Replace" : "Store"} onSend={send} onClose={onClose}>
      {!secret && (
        <TextField
          label="Name"
          name="name"
          required
          maxLength={128}
          autoFocus
          autoComplete="off"
          pattern="[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}"
          title="Letters, digits, dots, hyphens and underscores"
          hint="Letters, digits, dots, hyphens and underscores. A secret of the same name is replaced."
        />
      )}
      <TextArea
        mono
        label="Value"
        name="value"
        required
        rows={4}
        maxLength={65_536}
        autoComplete="off"
        spellCheck={false}
        autoFocus={secret !== undefined}
        hint="May have several lines. It cannot be read back, so keep it elsewhere too if you need it."
      />
      {secret && <p className="text-sm text-soft">Whatever uses it takes the new value from its next start or call on.</p>}
    </FormDialog>
  );
}

function Delete({ secret, onClose }: { secret: Secret; onClose: () => void }) {
  return (
    <Ask
      title={`Delete ${secret.name}?`}
      action="Delete"
      onClose={onClose}
      onConfirm={async () => {
        await api.DELETE("/api/vault/{name}", { params: { path: { name: secret.name } } });
        await refresh("/api/vault", "/api/plan");
      }}
    >
      <p>What names this secret fails until there is one of that name again. Its value cannot be brought back.</p>
      {secret.name.startsWith("provider-") && <p>It is the key of a provider: calls to that provider will fail. To disconnect it, remove the provider instead.</p>}
    </Ask>
  );
}

function Encryption({ onRotate }: { onRotate: () => void }) {
  return (
    <Section
      title="Encryption key"
      actions={
        <Button size="small" icon={<RefreshCw size={14} />} onClick={onRotate}>
          Rotate
        </Button>
      }
    >
      <p className="text-sm text-soft">
        The secrets of this tenant are encrypted with a key of its own. Rotating makes a new key and encrypts all of them anew; names, values and versions stay.
      </p>
    </Section>
  );
}

function Rotate({ onClose }: { onClose: () => void }) {
  return (
    <Ask
      danger={false}
      title="Rotate the encryption key?"
      action="Rotate"
      onClose={onClose}
      onConfirm={async () => {
        const answer = await api.POST("/api/vault/rotate");
        tell(`The key is now version ${answer.data!.version}; ${plural(answer.data!.reencrypted, "secret")} encrypted anew.`);
        await refresh("/api/vault");
      }}
    >
      <p>All secrets are encrypted with a new key. Nothing that uses them notices.</p>
    </Ask>
  );
}
