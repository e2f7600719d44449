import { getRouteApi, Link } from "@tanstack/react-router";
import { ArrowRight } from "lucide-react";
import { type FormEvent, useState } from "react";

import { $api, api } from "@/api/client";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { useEnter } from "./enter";
import { Entrance } from "./Entrance";

const route = getRouteApi("/sign-in");
const cookie = { query: { cookie: true } };

export function SignIn() {
  const { next } = route.useSearch();
  const { enter, busy, error } = useEnter(next);
  const options = $api.useQuery("get", "/api/auth/options");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void enter(() => api.POST("/api/auth/token", { params: cookie, body: { email, password } }));
  };
  return (
    <Entrance title="Sign in">
      {options.data?.demo && (
        <div className="grid gap-2">
          <Button
            look="primary"
            busy={busy}
            icon={<ArrowRight size={16} />}
            onClick={() => void enter(() => api.POST("/api/auth/demo", { params: cookie }))}
          >
            Continue as the demo owner
          </Button>
          <p className="text-xs text-faint">Only on this machine: whoever can reach it here may look around.</p>
          <div className="flex items-center gap-3 py-1 text-xs text-faint">
            <span className="h-px flex-1 bg-line" />
            or with an account
            <span className="h-px flex-1 bg-line" />
          </div>
        </div>
      )}
      <form onSubmit={submit} className="grid gap-4">
        <TextField label="E-mail" type="email" autoComplete="username" required value={email} onChange={(event) => setEmail(event.target.value)} />
        <TextField
          label="Password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
        {error ? <Problem error={error} /> : null}
        <Button type="submit" look={options.data?.demo ? "plain" : "primary"} busy={busy}>
          Sign in
        </Button>
      </form>
      <p className="text-sm text-soft">
        {options.data?.signup === "open" ? (
          <>
            New here?{" "}
            <Link to="/register" className="text-accent-ink underline">
              Create an account
            </Link>
          </>
        ) : (
          "No account? Ask an owner or admin of your tenant for an invitation."
        )}
      </p>
    </Entrance>
  );
}
