import type { Schemas } from "@/api/types";

export type Kind = Schemas["ProviderCreate"]["kind"];

interface KindInfo {
  name: string;
  /** Whether it works without a key. */
  keyOptional: boolean;
  /** Whether one has to say where it is. */
  needsAddress: boolean;
}

export const KINDS: Record<Kind, KindInfo> = {
  anthropic: { name: "Anthropic", keyOptional: false, needsAddress: false },
  openai: { name: "OpenAI", keyOptional: false, needsAddress: false },
  google: { name: "Google", keyOptional: false, needsAddress: false },
  mistral: { name: "Mistral", keyOptional: false, needsAddress: false },
  groq: { name: "Groq", keyOptional: false, needsAddress: false },
  openrouter: { name: "OpenRouter", keyOptional: false, needsAddress: false },
  ollama: { name: "Ollama", keyOptional: true, needsAddress: false },
  custom: { name: "Other, speaking OpenAI's chat completions", keyOptional: true, needsAddress: true },
};

/** What people call a kind of provider. */
export function kindName(kind: string): string {
  if (kind === "custom") return "OpenAI-compatible";
  return kind in KINDS ? KINDS[kind as Kind].name : kind;
}
