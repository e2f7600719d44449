import { Plus } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatMoney } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { More } from "@/ui/More";

import { Ask, Line, Lines, Loaded } from "./parts";
import { PriceForm } from "./PriceForm";
import { refresh } from "./task";

type Price = Schemas["PriceRead"];

/** Prices that were set here; they win over the catalogue. */
export function Prices() {
  const prices = $api.useInfiniteQuery("get", "/api/models/prices", { params: { query: { limit: 50 } } }, paged);
  const may = useMay("models:write");
  const [setting, setSetting] = useState<Price | "new">();
  const [removing, setRemoving] = useState<Price>();
  return (
    <Section
      title="Your own prices"
      note="They win over the catalogue, and fill in what it does not know."
      actions={
        <>
          <CopyCurl method="GET" path="/api/models/prices" />
          {may && (
            <Button size="small" icon={<Plus size={14} />} onClick={() => setSetting("new")}>
              Set a price
            </Button>
          )}
        </>
      }
    >
      <Loaded query={prices} rows={1}>
        {(found) =>
          itemsOf(found).length === 0 ? (
            <p className="text-sm text-soft">None. A price that nobody knows is shown as unknown, never as zero.</p>
          ) : (
            <Lines>
              {itemsOf(found).map((price) => (
                <Line
                  key={price.id}
                  title={<span className="break-all">{`${price.provider}/${price.model}`}</span>}
                  note={
                    `A million tokens: ${formatMoney(price.input)} in, ${formatMoney(price.output)} out` +
                    (price.cache_read !== price.input || price.cache_write !== price.input
                      ? `, ${formatMoney(price.cache_read)} from and ${formatMoney(price.cache_write)} to a cache`
                      : "")
                  }
                  actions={
                    may && (
                      <>
                        <Button size="small" look="quiet" onClick={() => setSetting(price)} aria-label={`Change the price of ${price.model}`}>
                          Change
                        </Button>
                        <Button size="small" look="quiet" onClick={() => setRemoving(price)} aria-label={`Remove the price of ${price.model}`}>
                          Remove
                        </Button>
                      </>
                    )
                  }
                />
              ))}
            </Lines>
          )
        }
      </Loaded>
      <More query={prices} />
      {setting && <PriceForm {...(setting === "new" ? {} : { price: setting })} onClose={() => setSetting(undefined)} />}
      {removing && (
        <Ask
          title={`Remove the price of ${removing.model}?`}
          action="Remove"
          onClose={() => setRemoving(undefined)}
          onConfirm={async () => {
            await api.DELETE("/api/models/prices/{price_id}", { params: { path: { price_id: removing.id } } });
            await refresh("/api/models");
          }}
        >
          <p>The catalogue's price counts again, if it has one. With a budget, models without a known price are refused. What was charged stays.</p>
        </Ask>
      )}
    </Section>
  );
}
