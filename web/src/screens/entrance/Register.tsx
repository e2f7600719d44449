import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { api } from "@/api/client";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { useEnter } from "./enter";
import { Entrance } from "./Entrance";
import { slugOf } from "./slug";

export function Register() {
  const { enter, busy, error } = useEnter("/welcome");
  const [form, setForm] = useState({ name: "", email: "", password: "", tenant_name: "" });
  const [slug, setSlug] = useState<string>();
  const set = (name: keyof typeof form) => (event: { target: { value: string } }) => setForm({ ...form, [name]: event.target.value });
  const tenant_slug = slug ?? slugOf(form.tenant_name);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void enter(() => api.POST("/api/auth/register", { params: { query: { cookie: true } }, body: { ...form, tenant_slug } }));
  };
  return (
    <Entrance title="Create an account" note="It comes with a tenant of its own: a place for your teams, sessions and people.">
      <form onSubmit={submit} className="grid gap-4">
        <TextField label="Your name" autoComplete="name" required value={form.name} onChange={set("name")} />
        <TextField label="E-mail" type="email" autoComplete="username" required value={form.email} onChange={set("email")} />
        <TextField label="Password" type="password" autoComplete="new-password" minLength={10} required value={form.password} onChange={set("password")} hint="At least 10 characters." />
        <TextField label="Tenant" placeholder="Acme Robotics" required value={form.tenant_name} onChange={set("tenant_name")} />
        <TextField label="Short name" required value={tenant_slug} onChange={(event) => setSlug(event.target.value)} hint="Lower-case letters, digits and hyphens; it appears in addresses." />
        {error ? <Problem error={error} /> : null}
        <Button type="submit" look="primary" busy={busy}>
          Create account
        </Button>
      </form>
      <p className="text-sm text-soft">
        Have one already?{" "}
        <Link to="/sign-in" className="text-accent-ink underline">
          Sign in
        </Link>
      </p>
    </Entrance>
  );
}
