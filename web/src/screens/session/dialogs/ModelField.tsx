import { $api } from "@/api/client";
import { SelectField } from "@/ui/Field";

interface Props {
  /** What is used if nothing is chosen. */
  usual: string;
  value: string;
  onChange: (model: string) => void;
}

/** A choice among the tenant's models; empty means the one that it had. */
export function ModelField({ usual, value, onChange }: Props) {
  const models = $api.useQuery("get", "/api/models").data?.items ?? [];
  return (
    <SelectField label="Model" value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">The one it had ({usual})</option>
      {models.map((model) => (
        <option key={model.id} value={model.id}>
          {model.id}
        </option>
      ))}
    </SelectField>
  );
}
