import { $api } from "@/api/client";
import { formatCount } from "@/lib/format";
import { Badge } from "@/ui/Badge";
import { Figure, Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Meter } from "@/ui/Meter";

import { Storage } from "../usage/Money";
import { type Limit, limitsOf } from "./limits";
import { Loaded } from "./parts";

export default function Plan() {
  const plan = $api.useQuery("get", "/api/plan");
  return (
    <>
      <Section title="Plan" actions={<CopyCurl method="GET" path="/api/plan" />}>
        <Loaded query={plan}>
          {(found) => (
            <dl className="grid gap-4 sm:grid-cols-4">
              <Figure name="Plan" value={<span className="capitalize">{found.plan}</span>} />
              <Figure name="Price" value={priceOf(found.monthly_price_usd)} {...(found.monthly_price_usd ? { note: "each month" } : {})} />
              <Figure name="Support" value={<span className="capitalize">{found.support}</span>} />
              <Figure name="Promised uptime" value={found.uptime_percent === null ? "None" : `${found.uptime_percent} %`} />
            </dl>
          )}
        </Loaded>
      </Section>
      <Section title="Limits" note="Whoever runs this installation can change the plan.">
        <Loaded query={plan} rows={8}>
          {(found) => (
            <ul className="grid gap-x-10 gap-y-5 sm:grid-cols-2">
              {limitsOf(found.limits).map((limit) => (
                <LimitItem key={limit.name} limit={limit} />
              ))}
            </ul>
          )}
        </Loaded>
      </Section>
      <Storage />
    </>
  );
}

function priceOf(dollars: number | null): string {
  if (dollars === null) return "By agreement";
  return dollars === 0 ? "Free" : `$${formatCount(dollars)}`;
}

function LimitItem({ limit }: { limit: Limit }) {
  return (
    <li className="grid content-start gap-1.5">
      <p className="flex items-baseline justify-between gap-3 text-sm">
        <span>{limit.words}</span>
        <span className="text-soft tabular">
          {limit.included === undefined ? limit.text : <Badge tone={limit.included ? "good" : "calm"}>{limit.text}</Badge>}
        </span>
      </p>
      {limit.meter && <Meter label={limit.words} value={limit.meter.used} max={limit.meter.allowed} />}
    </li>
  );
}
