import type { Schemas } from "@/api/types";
import { formatMoment } from "@/lib/format";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";

import { Block, JsonBlock } from "./Block";
import { textIn } from "./steps";

/** What a session was given: its prompt, its limits, everything that it was made with. */
export function Setup({ session }: { session: Schemas["SessionDetails"] }) {
  const { prompt: _prompt, instructions: _instructions, ...rest } = session.config;
  const instructions = textIn(session.config, "instructions");
  return (
    <div className="grid gap-5">
      <Section title="Prompt">
        <Block label="Prompt" text={textIn(session.config, "prompt")} tall />
      </Section>
      {instructions && (
        <Section title="Instructions" note="In place of the usual system prompt.">
          <Block label="Instructions" text={instructions} />
        </Section>
      )}
      <Section
        title="Set-up"
        note={`Made by ${session.created_by}, ${formatMoment(session.created_at)}.`}
        actions={<CopyCurl method="POST" path="/api/sessions" body={session.config} />}
      >
        <div className="grid gap-3">
          {session.allowed_tools.length > 0 && <p className="text-sm text-soft">Approved for the rest of this session: {session.allowed_tools.join(", ")}</p>}
          <JsonBlock label="Everything else" value={rest} tall />
          <p className="text-xs text-faint">
            Session <code className="select-all">{session.id}</code>
          </p>
        </div>
      </Section>
    </div>
  );
}
