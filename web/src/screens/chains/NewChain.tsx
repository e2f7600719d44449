import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { lazy, Suspense, useDeferredValue, useState } from "react";

import { fetchApi } from "@/api/client";
import { problemOf } from "@/api/problem";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";
import { Page } from "@/shell/Page";
import { Button } from "@/ui/Button";
import { Card } from "@/ui/Card";
import { TextArea, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";

import { EXAMPLE, withValues } from "./definition";

const Graph = lazy(() => import("./Graph"));

async function post<T>(path: string, yaml: string): Promise<T> {
  const headers = { "Content-Type": "application/yaml" };
  const response = await fetchApi(new Request(serverUrl(path), { method: "POST", headers, body: yaml }));
  return (await response.json()) as T;
}

/** Writes a chain, sees at once whether it holds together, and runs it. */
export function NewChain() {
  const navigate = useNavigate();
  const [yaml, setYaml] = useState(EXAMPLE);
  const [values, setValues] = useState<Record<string, string>>({});
  const settled = useDeferredValue(yaml);
  const check = useQuery({
    queryKey: ["chain check", settled],
    enabled: settled.trim() !== "",
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      // While somebody types, each letter is a new text; only the last one counts.
      await new Promise((resolve) => setTimeout(resolve, 300));
      signal.throwIfAborted();
      return post<Schemas["ChainChecked"]>("/api/chains/check", settled);
    },
  });
  const run = useMutation({
    mutationFn: () => post<Schemas["ChainDetails"]>("/api/chains", withValues(yaml, values)),
    onSuccess: (chain) => navigate({ to: "/chains/$chainId", params: { chainId: chain.id } }),
  });
  const checked = check.isError ? undefined : check.data;
  const missing = checked?.missing_inputs ?? [];
  const ready = checked !== undefined && missing.every((name) => values[name]);
  return (
    <Page wide title="New chain" crumbs={[{ name: "Chains", link: { to: "/chains" } }]} note="Nodes with prompts; what a prompt names comes before it. Several that need nothing of each other run at once.">
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <TextArea label="Definition (YAML)" mono rows={24} spellCheck={false} value={yaml} onChange={(event) => setYaml(event.target.value)} />
        <div className="grid gap-4">
          <h2 className="text-sm font-medium">How it will run</h2>
          {check.isError && <Problem error={problemOf(check.error)} />}
          {checked ? (
            <Suspense fallback={<Skeleton className="h-[28rem]" />}>
              <Graph nodes={checked.layers.flat().map((id) => ({ id, needs: checked.needs[id] ?? [], state: "PENDING" as const }))} />
            </Suspense>
          ) : (
            !check.isError && <Skeleton className="h-[28rem]" />
          )}
          {missing.length > 0 && (
            <Card className="grid gap-3 p-4">
              {missing.map((name) => (
                <TextField key={name} label={`Input ${name}`} required value={values[name] ?? ""} onChange={(event) => setValues({ ...values, [name]: event.target.value })} />
              ))}
            </Card>
          )}
          {run.error ? <Problem error={run.error} /> : null}
          <Button className="justify-self-start" look="primary" icon={<Play size={15} />} busy={run.isPending} disabled={!ready} onClick={() => run.mutate()}>
            Run the chain
          </Button>
        </div>
      </div>
    </Page>
  );
}
