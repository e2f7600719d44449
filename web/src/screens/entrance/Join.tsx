import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { api } from "@/api/client";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { useEnter } from "./enter";
import { Entrance } from "./Entrance";

const route = getRouteApi("/join");

/** Where the link of an invitation leads. */
export function Join() {
  const { enter, busy, error } = useEnter("/");
  const fromLink = route.useSearch().token;
  const [token, setToken] = useState(fromLink ?? "");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void enter(() =>
      api.POST("/api/auth/accept-invitation", {
        params: { query: { cookie: true } },
        body: { token, name: name || null, password },
      }),
    );
  };
  return (
    <Entrance title="Join a tenant" note="You were invited. If you have an account already, give its password; otherwise choose one.">
      <form onSubmit={submit} className="grid gap-4">
        {!fromLink && <TextField label="Invitation" required value={token} onChange={(event) => setToken(event.target.value)} hint="The token you were sent; it begins with inv_." />}
        <TextField label="Your name" autoComplete="name" value={name} onChange={(event) => setName(event.target.value)} hint="Only needed for a new account." />
        <TextField label="Password" type="password" autoComplete="current-password" required value={password} onChange={(event) => setPassword(event.target.value)} />
        {error ? <Problem error={error} /> : null}
        <Button type="submit" look="primary" busy={busy}>
          Join
        </Button>
      </form>
    </Entrance>
  );
}
