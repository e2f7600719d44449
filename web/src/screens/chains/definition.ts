export const EXAMPLE = `name: haiku
inputs:
  topic: {default: the sea}
nodes:
  draft:
    prompt: Write a haiku about {{ inputs.topic }}.
  critic:
    prompt: "Say in one line what is weak about this haiku: {{ nodes.draft.text }}"
  better:
    prompt: "Improve this haiku: {{ nodes.draft.text }} Mind this: {{ nodes.critic.text }}"
output: nodes.better.text
`;

/** The definition with values for its inputs. JSON is YAML as well, so no writer of YAML is needed. */
export function withValues(yaml: string, values: Record<string, string>): string {
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
  if (Object.keys(given).length === 0) return yaml;
  return `${yaml.trimEnd()}\nvalues: ${JSON.stringify(given)}\n`;
}
