import clsx from "clsx";

import { type Provider, PROVIDER_NAMES, PROVIDERS } from "../words";

/** What drives a team: each with what it means and what it needs. */
export function ProviderChoice({ value, onChange }: { value: Provider; onChange: (provider: Provider) => void }) {
  return (
    <fieldset className="grid gap-3 sm:grid-cols-2">
      <legend className="sr-only">Provider</legend>
      {PROVIDER_NAMES.map((provider) => {
        const words = PROVIDERS[provider];
        return (
          <label
            key={provider}
            className={clsx(
              "flex cursor-pointer items-start gap-3 rounded-md border p-3.5 transition-colors hover:border-accent has-focus-visible:outline-2 has-focus-visible:outline-accent-ink",
              provider === value ? "border-accent bg-accent-soft" : "border-line",
            )}
          >
            <input
              type="radio"
              name="provider"
              value={provider}
              checked={provider === value}
              aria-describedby={`provider-${provider}`}
              onChange={() => onChange(provider)}
              className="mt-0.5 size-4.5 shrink-0 accent-accent"
            />
            <span className="grid min-w-0 gap-0.5">
              <span className="text-sm font-semibold">{words.name}</span>
              <span id={`provider-${provider}`} className="grid gap-0.5 text-xs text-soft">
                <span>{words.means}</span>
                <span>
                  <span className="font-medium">Needs:</span> {words.needs} {words.install && <code className="break-words">{words.install}</code>}
                </span>
              </span>
            </span>
          </label>
        );
      })}
    </fieldset>
  );
}
