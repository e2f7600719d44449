import { Coins, FolderTree, Globe, Workflow } from "lucide-react";
import type { ReactNode } from "react";

interface Props {
  session: ReactNode;
  files: ReactNode;
  outside: ReactNode;
  cost: ReactNode;
}

/** What something means for the session, its files, the world outside and the bill. */
export function Consequences({ session, files, outside, cost }: Props) {
  const rows = [
    { icon: Workflow, name: "This session", text: session },
    { icon: FolderTree, name: "Its files", text: files },
    { icon: Globe, name: "Outside", text: outside },
    { icon: Coins, name: "Cost", text: cost },
  ];
  return (
    <dl className="grid gap-2.5 rounded-lg bg-sunken p-3.5 text-sm">
      {rows.map(({ icon: Icon, name, text }) => (
        <div key={name} className="grid grid-cols-[7.5rem_minmax(0,1fr)] gap-x-3 max-sm:grid-cols-1">
          <dt className="flex items-start gap-2 font-medium">
            <Icon size={16} className="mt-0.5 shrink-0 text-faint" aria-hidden />
            {name}
          </dt>
          <dd className="text-soft">{text}</dd>
        </div>
      ))}
    </dl>
  );
}
