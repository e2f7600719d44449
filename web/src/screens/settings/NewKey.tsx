import { useState } from "react";

import { api } from "@/api/client";
import { type Scope, useMe } from "@/api/session";
import { serverUrl } from "@/lib/base";
import { Button } from "@/ui/Button";
import { ShownOnce } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { Checkbox, SelectField, TextField } from "@/ui/Field";
import { Choice } from "@/ui/Tabs";

import { FormDialog, textOf } from "./parts";
import { groupScopes } from "./scopes";
import { refresh } from "./task";

const LIVES = [
  { days: "30", name: "In 30 days" },
  { days: "90", name: "In 90 days" },
  { days: "365", name: "In a year" },
  { days: "", name: "Never" },
];

/** Makes an API key: asks what it is for, then shows it once. */
export function NewKey({ onClose }: { onClose: () => void }) {
  const me = useMe();
  const [reach, setReach] = useState<"all" | "some">("all");
  const [chosen, setChosen] = useState<Scope[]>([]);
  const [key, setKey] = useState<string>();
  if (key !== undefined) return <KeyOnce apiKey={key} onClose={onClose} />;
  const send = async (fields: FormData) => {
    const days = Number(textOf(fields, "days"));
    const answer = await api.POST("/api/keys", {
      body: {
        name: textOf(fields, "name"),
        scopes: reach === "all" ? null : chosen,
        expires_at: days ? new Date(Date.now() + days * 86_400_000).toISOString() : null,
      },
    });
    setKey(answer.data!.key);
    await refresh("/api/keys", "/api/plan");
  };
  const toggle = (scope: Scope, on: boolean) => setChosen(on ? [...chosen, scope] : chosen.filter((each) => each !== scope));
  return (
    <FormDialog
      wide
      title="New API key"
      action="Create the key"
      closes={false}
      disabled={reach === "some" && chosen.length === 0}
      onSend={send}
      onClose={onClose}
    >
      <div className="grid gap-4 sm:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
        <TextField label="Name" name="name" required maxLength={100} autoFocus hint="What uses it, so that you know it again." />
        <SelectField label="Expires" name="days" defaultValue="90">
          {LIVES.map((life) => (
            <option key={life.days} value={life.days}>
              {life.name}
            </option>
          ))}
        </SelectField>
      </div>
      <div className="grid justify-items-start gap-1.5">
        <p className="text-sm font-medium">What it may do</p>
        <Choice
          label="What it may do"
          options={[
            { value: "all", name: "All that you may do" },
            { value: "some", name: "Only some of it" },
          ]}
          value={reach}
          onChange={setReach}
        />
        {reach === "all" && <p className="text-xs text-faint">Give it less if it leaves your machine: whoever has the key may do all of it.</p>}
      </div>
      {reach === "some" && (
        <div className="grid gap-x-8 gap-y-5 sm:grid-cols-2">
          {groupScopes(me.scopes).map((group) => (
            <fieldset key={group.name} className="grid content-start gap-2">
              <legend className="pb-1.5 text-sm font-medium">{group.name}</legend>
              {group.scopes.map(({ scope, words }) => (
                <Checkbox
                  key={scope}
                  label={<span className="font-normal">{words}</span>}
                  checked={chosen.includes(scope)}
                  onChange={(event) => toggle(scope, event.target.checked)}
                />
              ))}
            </fieldset>
          ))}
        </div>
      )}
    </FormDialog>
  );
}

function KeyOnce({ apiKey, onClose }: { apiKey: string; onClose: () => void }) {
  return (
    <Dialog
      title="Your new API key"
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <p className="text-sm text-soft">Copy it now. It is shown only this once; afterwards nobody can read it, only revoke it.</p>
      <ShownOnce label="API key" text={apiKey} />
      <p className="text-sm text-soft">To use it in a shell:</p>
      <pre className="overflow-x-auto rounded-md bg-sunken p-3 text-xs" tabIndex={0}>{`export AGENTOS_URL=${serverUrl("")}\nexport AGENTOS_API_KEY=…`}</pre>
    </Dialog>
  );
}
