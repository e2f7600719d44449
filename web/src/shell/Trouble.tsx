import { Link } from "@tanstack/react-router";
import { Compass } from "lucide-react";

import { LinkButton } from "@/ui/Button";
import { Empty } from "@/ui/Empty";
import { Problem } from "@/ui/Problem";

/** There is nothing at this address. */
export function Missing() {
  return (
    <div className="mx-auto max-w-xl px-4 py-16">
      <h1 className="sr-only">Not found</h1>
      <Empty icon={Compass} title="There is nothing here" action={<LinkButton to="/" look="primary">Go to Home</LinkButton>}>
        The address may be mistyped, or what it named is gone.
      </Empty>
    </div>
  );
}

/** There is nothing at this address, and nobody need have signed in to see that. */
export function Nowhere() {
  return (
    <main>
      <Missing />
    </main>
  );
}

/** A screen that could not be shown. */
export function Broken({ error, reset }: { error: unknown; reset?: () => void }) {
  return (
    <div className="mx-auto grid max-w-xl gap-4 px-4 py-16">
      <h1 className="text-xl font-semibold">This screen cannot be shown</h1>
      <Problem error={error} retry={reset} />
      <Link to="/" className="text-sm text-accent-ink underline">
        Go to Home
      </Link>
    </div>
  );
}
