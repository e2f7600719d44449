import { Plus, Wallet } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { More } from "@/ui/More";

import { BudgetLine, useBudgetName } from "../usage/BudgetLine";
import { useSessionTitles, useTeamNames } from "../usage/names";
import { BudgetForm } from "./BudgetForm";
import { Ask, Loaded } from "./parts";
import { refresh } from "./task";

type Budget = Schemas["BudgetRead"];
type Doing = { what: "new" } | { what: "change" | "remove"; budget: Budget; name: string };

const idsOf = (budgets: Budget[], scope: Budget["scope"]) => budgets.filter((each) => each.scope === scope).map((each) => each.subject_id);

export default function Budgets() {
  const query = $api.useInfiniteQuery("get", "/api/budgets", { params: { query: { limit: 50 } } }, paged);
  const budgets = itemsOf(query.data);
  const names = new Map([...useTeamNames(idsOf(budgets, "team")), ...useSessionTitles(idsOf(budgets, "session"))]);
  const nameOf = useBudgetName();
  const may = useMay("budgets:write");
  const [doing, setDoing] = useState<Doing>();
  const close = () => setDoing(undefined);
  const add = may && (
    <Button size="small" look="primary" icon={<Plus size={14} />} onClick={() => setDoing({ what: "new" })}>
      Set a budget
    </Button>
  );
  return (
    <>
      <Section
        title="Budgets"
        note="Work that reaches its cap pauses and goes on when there is room. You are told at 80 %."
        actions={
          <>
            <CopyCurl method="GET" path="/api/budgets" />
            {add}
          </>
        }
      >
        <Loaded query={query}>
          {() =>
            budgets.length === 0 ? (
              <Empty icon={Wallet} title="No budget yet" action={add}>
                A budget is a hard cap in dollars, for the whole tenant or a team each month, or for one session in all.
              </Empty>
            ) : (
              <ul className="grid gap-6">
                {budgets.map((budget) => {
                  const name = nameOf(budget, names);
                  return (
                    <li key={budget.id}>
                      <BudgetLine
                        budget={budget}
                        name={name}
                        linked={budget.scope !== "tenant" && typeof names.get(budget.subject_id) === "string"}
                        actions={may && <Actions name={name} onDo={(what) => setDoing({ what, budget, name })} />}
                      />
                    </li>
                  );
                })}
              </ul>
            )
          }
        </Loaded>
        <More query={query} />
      </Section>
      {doing?.what === "new" && <BudgetForm onClose={close} />}
      {doing?.what === "change" && <BudgetForm budget={doing.budget} name={doing.name} onClose={close} />}
      {doing?.what === "remove" && (
        <Ask
          title={`Remove the budget of ${doing.name}?`}
          action="Remove"
          onClose={close}
          onConfirm={async () => {
            await api.DELETE("/api/budgets/{budget_id}", { params: { path: { budget_id: doing.budget.id } } });
            await refresh("/api/budgets");
          }}
        >
          <p>Nothing caps this spending any more, and what waits for this budget goes on. What was spent stays in the usage.</p>
        </Ask>
      )}
    </>
  );
}

function Actions({ name, onDo }: { name: string; onDo: (what: "change" | "remove") => void }) {
  return (
    <>
      <Button size="small" look="quiet" onClick={() => onDo("change")} aria-label={`Change the budget of ${name}`}>
        Change
      </Button>
      <Button size="small" look="quiet" onClick={() => onDo("remove")} aria-label={`Remove the budget of ${name}`}>
        Remove
      </Button>
    </>
  );
}
