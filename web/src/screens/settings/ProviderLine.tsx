import { CircleAlert, CircleCheck, EllipsisVertical, Pencil, Trash2 } from "lucide-react";
import { useCallback, useEffect, useRef, useState } from "react";

import { api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatDuration, plural } from "@/lib/format";
import { Button, IconButton } from "@/ui/Button";
import { Menu, MenuItem } from "@/ui/Menu";
import { Problem } from "@/ui/Problem";
import { Spinner } from "@/ui/Spinner";

import { kindName } from "./kinds";
import { Ask, Line } from "./parts";
import { EditProvider } from "./ProviderForm";
import { ProviderModels } from "./ProviderModels";
import { refresh, useTask } from "./task";

type Provider = Schemas["ProviderRead"];

/** A provider: its key's end, its test, its models. */
export function ProviderLine({ provider, testNow }: { provider: Provider; testNow: boolean }) {
  const may = useMay("models:write");
  const [open, setOpen] = useState(false);
  const [doing, setDoing] = useState<"edit" | "remove">();
  const { task, result, test } = useTest(provider, testNow);
  return (
    <Line
      title={
        <>
          {provider.name}
          {provider.last_four && <code className="text-xs text-faint" title={`Its key ends with ${provider.last_four}`}>…{provider.last_four}</code>}
        </>
      }
      note={<span className="break-all">{noteOf(provider)}</span>}
      actions={
        <>
          <Button size="small" look="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
            Models
          </Button>
          {may && (
            <>
              <Button size="small" busy={task.busy} onClick={() => void test()} aria-label={`Test ${provider.name}`}>
                Test
              </Button>
              <Menu
                trigger={
                  <IconButton size="small" label={`More for ${provider.name}`}>
                    <EllipsisVertical size={15} />
                  </IconButton>
                }
              >
                <MenuItem icon={<Pencil size={14} />} onSelect={() => setDoing("edit")}>
                  Change key or address
                </MenuItem>
                <MenuItem danger icon={<Trash2 size={14} />} onSelect={() => setDoing("remove")}>
                  Remove
                </MenuItem>
              </Menu>
            </>
          )}
        </>
      }
    >
      <div role="status" className="empty:hidden">
        {task.busy ? (
          <p className="flex items-center gap-2 text-sm text-soft">
            <Spinner /> Asking {provider.name} for its models
          </p>
        ) : (
          result && <TestResult result={result} />
        )}
      </div>
      {task.error ? <Problem error={task.error} /> : null}
      {open && <ProviderModels provider={provider} />}
      {doing === "edit" && <EditProvider provider={provider} onClose={() => setDoing(undefined)} />}
      {doing === "remove" && <Remove provider={provider} onClose={() => setDoing(undefined)} />}
    </Line>
  );
}

function noteOf(provider: Provider): string {
  const parts = [kindName(provider.kind), provider.base_url, provider.last_four === null ? "no key" : null];
  if (provider.requests_per_minute) parts.push(`${provider.requests_per_minute} calls a minute at most`);
  return parts.filter(Boolean).join(", ");
}

function useTest(provider: Provider, testNow: boolean) {
  const task = useTask();
  const [result, setResult] = useState<Schemas["ProviderTest"]>();
  const { run } = task;
  const test = useCallback(
    () =>
      run(async () => {
        const answer = await api.POST("/api/models/providers/{provider_id}/test", { params: { path: { provider_id: provider.id } } });
        setResult(answer.data);
        await refresh("/api/models");
      }),
    [run, provider.id],
  );
  const done = useRef(false);
  useEffect(() => {
    if (!testNow || done.current) return;
    done.current = true;
    void test();
  }, [testNow, test]);
  return { task, result, test };
}

function TestResult({ result }: { result: Schemas["ProviderTest"] }) {
  if (result.ok) {
    return (
      <p className="flex items-center gap-2 text-sm text-good">
        <CircleCheck size={15} aria-hidden /> It works: {plural(result.models ?? 0, "model")}, answered in {formatDuration(result.latency_ms)}.
      </p>
    );
  }
  return (
    <div className="flex items-start gap-2 rounded-md bg-bad-soft p-3 text-sm">
      <CircleAlert size={15} className="mt-0.5 shrink-0 text-bad" aria-hidden />
      <div className="min-w-0">
        <p className="font-medium break-words">{result.message ?? "It does not work."}</p>
        {result.advice && <p className="text-soft">{result.advice}</p>}
      </div>
    </div>
  );
}

function Remove({ provider, onClose }: { provider: Provider; onClose: () => void }) {
  return (
    <Ask
      title={`Remove ${provider.name}?`}
      action="Remove"
      onClose={onClose}
      onConfirm={async () => {
        await api.DELETE("/api/models/providers/{provider_id}", { params: { path: { provider_id: provider.id } } });
        await refresh("/api/models", "/api/vault", "/api/plan");
      }}
    >
      <p>
        Its key is deleted from the vault. Calls to {provider.name}/… fail from now on, unless the fallback chain has another model for them.
      </p>
      <p>What was used and what it cost stays. Sessions and teams that name its models have to be given others.</p>
    </Ask>
  );
}
