import { Badge } from "@/ui/Badge";

import { exampleBody, variablesOf } from "./template";

/** What a prompt takes from what is sent, and, unless in short, an example that has it. */
export function Variables({ template, short = false }: { template: string; short?: boolean }) {
  const variables = variablesOf(template);
  if (variables.length === 0) {
    return (
      <p className="text-xs text-faint">
        It takes nothing from what is sent. Write <code>{"{{issue.title}}"}</code> for a part of the JSON, <code>{"{{body}}"}</code> for all of it.
      </p>
    );
  }
  return (
    <div className="grid gap-2">
      <ul aria-label="What the prompt takes" className="flex flex-wrap gap-1.5">
        {variables.map(({ path, optional }) => (
          <li key={path}>
            <Badge tone="accent">
              <code>{path}</code>
              {optional && <span className="font-normal">may be missing</span>}
            </Badge>
          </li>
        ))}
      </ul>
      {!short && (
        <pre tabIndex={0} role="region" aria-label="Example of what is sent" className="max-h-48 overflow-auto rounded-md border border-line bg-sunken p-3 text-xs">
          {JSON.stringify(exampleBody(variables), null, 2)}
        </pre>
      )}
    </div>
  );
}
