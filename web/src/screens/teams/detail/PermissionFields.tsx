import { $api } from "@/api/client";
import { Checkbox, TextArea } from "@/ui/Field";

import type { PermissionsDraft } from "../permissions";
import type { Provider } from "../words";

interface Props {
  provider: Provider;
  value: PermissionsDraft;
  onChange: (part: Partial<PermissionsDraft>) => void;
  disabled: boolean;
  error?: string | undefined;
}

/** What an agent may do, in the order in which it is checked before each tool call. */
export function PermissionFields({ provider, value, onChange, disabled, error }: Props) {
  const tools = $api.useQuery("get", "/api/tools", {}, { enabled: provider === "native" }).data?.items ?? [];
  const names = provider === "native" ? "As this team's tools are called: " + tools.map((tool) => tool.name).join(", ") + "." : "By the agent CLI's own names, such as Bash or Read.";
  const shell = provider === "native" ? "shell" : "Bash";
  return (
    <fieldset className="grid gap-4 rounded-md border border-line p-4">
      <legend className="px-1 text-sm font-medium">Permissions</legend>
      <p className="-mt-2 text-xs text-soft">
        Checked before each tool call, from top to bottom. One entry per line; * stands for anything. The sandbox is the wall, permissions are the
        sign on the door.
      </p>
      <Restriction
        label="Only certain tools"
        on={value.onlyTools}
        text={value.tools}
        field="Allowed tools"
        hint={names}
        placeholder={`${shell}\nread_file`}
        disabled={disabled}
        onSwitch={(onlyTools) => onChange({ onlyTools })}
        onText={(text) => onChange({ tools: text })}
      />
      <TextArea label="Denied commands" mono rows={3} disabled={disabled} placeholder={"rm *\ngit push*"} hint="Shell commands it must not run." value={value.deniedCommands} onChange={(event) => onChange({ deniedCommands: event.target.value })} />
      <Restriction
        label="Only certain commands"
        on={value.onlyCommands}
        text={value.allowedCommands}
        field="Allowed commands"
        hint="The only shell commands it may run."
        placeholder={"git *\npytest*"}
        disabled={disabled}
        onSwitch={(onlyCommands) => onChange({ onlyCommands })}
        onText={(text) => onChange({ allowedCommands: text })}
      />
      <Restriction
        label="Only certain files"
        on={value.onlyFiles}
        text={value.files}
        field="Files"
        hint="Paths below the workspace that it may read and write."
        placeholder={"src/**\ndocs/*.md"}
        disabled={disabled}
        onSwitch={(onlyFiles) => onChange({ onlyFiles })}
        onText={(text) => onChange({ files: text })}
      />
      <TextArea label="Ask a person before" mono rows={2} disabled={disabled} placeholder={shell} hint="Tools that somebody has to approve each time; * for all of them." value={value.ask} onChange={(event) => onChange({ ask: event.target.value })} />
      {error && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
    </fieldset>
  );
}

interface RestrictionProps {
  label: string;
  on: boolean;
  text: string;
  field: string;
  hint: string;
  placeholder: string;
  disabled: boolean;
  onSwitch: (on: boolean) => void;
  onText: (text: string) => void;
}

function Restriction({ label, on, text, field, hint, placeholder, disabled, onSwitch, onText }: RestrictionProps) {
  const forbids = on && text.trim() === "";
  return (
    <div className="grid gap-2">
      <Checkbox label={label} disabled={disabled} checked={on} onChange={(event) => onSwitch(event.target.checked)} />
      {on && (
        <TextArea
          className="ml-7"
          label={field}
          mono
          rows={3}
          disabled={disabled}
          placeholder={placeholder}
          hint={forbids ? `Nothing is listed: it may use none. ${hint}` : hint}
          value={text}
          onChange={(event) => onText(event.target.value)}
        />
      )}
    </div>
  );
}
