import { Circle, CircleCheck, CircleDashed } from "lucide-react";

import type { PlanItem } from "./steps";

const LOOKS: Record<string, { icon: typeof Circle; ink: string; word: string }> = {
  done: { icon: CircleCheck, ink: "text-good", word: "Done" },
  in_progress: { icon: CircleDashed, ink: "text-info", word: "In progress" },
  pending: { icon: Circle, ink: "text-faint", word: "To do" },
};

/** What an agent has set out to do, and how far it is. */
export function Plan({ items }: { items: PlanItem[] }) {
  return (
    <ul aria-label="Plan" className="grid gap-1.5">
      {items.map((item, index) => {
        const look = LOOKS[item.status] ?? LOOKS.pending!;
        return (
          <li key={index} className="flex items-start gap-2 text-sm">
            <look.icon size={16} className={`mt-0.5 shrink-0 ${look.ink}`} aria-label={look.word} />
            <span className={item.status === "done" ? "text-soft" : "text-ink"}>{item.step}</span>
          </li>
        );
      })}
    </ul>
  );
}
