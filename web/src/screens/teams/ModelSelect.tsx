import { $api } from "@/api/client";
import { SelectField } from "@/ui/Field";

interface Props {
  label?: string;
  value: string;
  onChange: (model: string) => void;
  /** What is meant when nothing is chosen. */
  standard: { value: string; name: string };
  hint?: string;
  error?: string | undefined;
  disabled?: boolean;
  className?: string;
}

/** One of the tenant's models, or the standard. */
export function ModelSelect({ label = "Model", value, onChange, standard, ...field }: Props) {
  const models = $api.useQuery("get", "/api/models").data?.items ?? [];
  // A team may name a model by its short name, or one that is not connected any more.
  const unlisted = value !== standard.value && !models.some((model) => model.id === value);
  return (
    <SelectField label={label} value={value} onChange={(event) => onChange(event.target.value)} {...field}>
      <option value={standard.value}>{standard.name}</option>
      {unlisted && <option value={value}>{value}</option>}
      {models.map((model) => (
        <option key={model.id} value={model.id}>
          {model.id}
        </option>
      ))}
    </SelectField>
  );
}
