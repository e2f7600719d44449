import { Plug, Plus } from "lucide-react";
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
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";

import { FallbackChain } from "./FallbackChain";
import { Line, Lines, Loaded } from "./parts";
import { Prices } from "./Prices";
import { ConnectProvider } from "./ProviderForm";
import { ProviderLine } from "./ProviderLine";
import { refresh, useTask } from "./task";

export default function Providers() {
  const providers = $api.useInfiniteQuery("get", "/api/models/providers", { params: { query: { limit: 50 } } }, paged);
  const may = useMay("models:write");
  const [connecting, setConnecting] = useState(false);
  // What was just connected is tested at once.
  const [fresh, setFresh] = useState<string>();
  const list = itemsOf(providers.data);
  return (
    <>
      {may && providers.isSuccess && <Detected providers={list} onConnected={setFresh} />}
      <Section
        title="Providers"
        actions={
          <>
            <CopyCurl method="GET" path="/api/models/providers" />
            {may && (
              <Button size="small" look="primary" icon={<Plus size={14} />} onClick={() => setConnecting(true)}>
                Connect
              </Button>
            )}
          </>
        }
      >
        <Loaded query={providers}>
          {() => (
            <Lines>
              {list.map((provider) => (
                <ProviderLine key={provider.id} provider={provider} testNow={provider.id === fresh} />
              ))}
              <Line
                title={
                  <>
                    Built-in
                    <Badge tone="good">Always there</Badge>
                  </>
                }
                note="The model demo: needs no key and no network. A demonstration, not a clever model."
              />
            </Lines>
          )}
        </Loaded>
        <More query={providers} />
      </Section>
      <FallbackChain />
      <Prices />
      {connecting && <ConnectProvider onConnected={setFresh} onClose={() => setConnecting(false)} />}
    </>
  );
}

interface DetectedProps {
  providers: Schemas["ProviderRead"][];
  onConnected: (id: string) => void;
}

/** An Ollama that runs on this machine and is not connected yet: one press. */
function Detected({ providers, onConnected }: DetectedProps) {
  const detected = $api.useQuery("get", "/api/models/providers/detected");
  const task = useTask();
  const found = detected.data?.items.find((each) => each.kind === "ollama");
  if (!found || providers.some((provider) => provider.kind === "ollama")) return null;
  const connect = async () => {
    const answer = await api.POST("/api/models/providers", { body: { kind: "ollama", base_url: found.base_url } });
    await refresh("/api/models", "/api/plan");
    onConnected(answer.data!.id);
  };
  return (
    <div className="grid gap-3 rounded-lg border border-line bg-info-soft p-4">
      <div className="flex flex-wrap items-center gap-3">
        <Plug size={18} className="shrink-0 text-info" aria-hidden />
        <div className="min-w-44 flex-1 text-sm">
          <p className="font-medium">Ollama runs on this machine</p>
          <p className="text-soft">
            With {plural(found.models.length, "model")}
            {found.models.length > 0 && `: ${found.models.slice(0, 4).join(", ")}${found.models.length > 4 ? ", …" : ""}`}. No key needed.
          </p>
        </div>
        <Button look="primary" busy={task.busy} onClick={() => void task.run(connect)}>
          Connect
        </Button>
      </div>
      {task.error ? <Problem error={task.error} /> : null}
    </div>
  );
}
