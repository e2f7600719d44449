import { useNavigate } from "@tanstack/react-router";
import { UserPlus } from "lucide-react";
import { useState } from "react";

import { $api, api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { signOut, useMay, useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Badge } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { SelectField } from "@/ui/Field";
import { More } from "@/ui/More";
import { Time } from "@/ui/Time";
import { tellProblem } from "@/ui/toasts";

import { Invitations } from "./Invitations";
import { Invite } from "./Invite";
import { Ask, Line, Lines, Loaded } from "./parts";
import { type Role, ROLES, rolesToGive } from "./roles";
import { refresh, useTask } from "./task";

type Member = Schemas["MemberRead"];

export default function Members() {
  const members = $api.useInfiniteQuery("get", "/api/members", { params: { query: { limit: 50 } } }, paged);
  const may = useMay("members:write");
  const [inviting, setInviting] = useState(false);
  const [removing, setRemoving] = useState<Member>();
  return (
    <>
      <Section
        title="Members"
        actions={
          <>
            <CopyCurl method="GET" path="/api/members" />
            {may && (
              <Button size="small" look="primary" icon={<UserPlus size={14} />} onClick={() => setInviting(true)}>
                Invite
              </Button>
            )}
          </>
        }
      >
        <Loaded query={members}>
          {(found) => (
            <Lines>
              {itemsOf(found).map((member) => (
                <MemberLine key={member.user_id} member={member} onRemove={() => setRemoving(member)} />
              ))}
            </Lines>
          )}
        </Loaded>
        <More query={members} />
      </Section>
      <Invitations />
      {inviting && <Invite onClose={() => setInviting(false)} />}
      {removing && <Remove member={removing} onClose={() => setRemoving(undefined)} />}
    </>
  );
}

function MemberLine({ member, onRemove }: { member: Member; onRemove: () => void }) {
  const me = useMe();
  const may = useMay("members:write");
  const isOwner = useMay("tenant:write");
  const isMe = member.user_id === me.id;
  const mayChange = may && (isOwner || member.role !== "owner");
  return (
    <Line
      title={
        <>
          {member.name}
          {isMe && <Badge tone="accent">You</Badge>}
        </>
      }
      note={
        <span className="break-all">
          {member.email}, joined <Time at={member.created_at} />
        </span>
      }
      actions={
        <>
          {mayChange ? <RoleChoice member={member} /> : <Badge title={ROLES[member.role].note}>{ROLES[member.role].name}</Badge>}
          {(mayChange || isMe) && (
            <Button size="small" look="quiet" onClick={onRemove} aria-label={isMe ? "Leave this tenant" : `Remove ${member.name}`}>
              {isMe ? "Leave" : "Remove"}
            </Button>
          )}
        </>
      }
    />
  );
}

function RoleChoice({ member }: { member: Member }) {
  const isOwner = useMay("tenant:write");
  const task = useTask();
  const change = (role: Role) =>
    task.run(async () => {
      try {
        await api.PATCH("/api/members/{user_id}", { params: { path: { user_id: member.user_id } }, body: { role } });
        await refresh("/api/members", "/api/auth/me");
      } catch (problem) {
        tellProblem(problem);
      }
    });
  return (
    <SelectField
      hideLabel
      className="w-32"
      label={`Role of ${member.name}`}
      value={member.role}
      disabled={task.busy}
      onChange={(event) => void change(event.target.value as Role)}
    >
      {rolesToGive(isOwner).map((role) => (
        <option key={role} value={role}>
          {ROLES[role].name}
        </option>
      ))}
    </SelectField>
  );
}

function Remove({ member, onClose }: { member: Member; onClose: () => void }) {
  const me = useMe();
  const navigate = useNavigate();
  const isMe = member.user_id === me.id;
  const remove = async () => {
    await api.DELETE("/api/members/{user_id}", { params: { path: { user_id: member.user_id } } });
    if (!isMe) return refresh("/api/members", "/api/plan");
    await signOut();
    await navigate({ to: "/sign-in" });
  };
  return (
    <Ask title={isMe ? `Leave ${me.tenant_name}?` : `Remove ${member.name}?`} action={isMe ? "Leave" : "Remove"} onConfirm={remove} onClose={onClose}>
      <p>
        {isMe ? "You lose" : `${member.name} loses`} access to this tenant at once. Sessions, teams and API keys {isMe ? "you" : "they"} made stay; revoke API
        keys separately.
      </p>
      <p>{isMe ? "You" : "They"} can be invited again at any time.</p>
    </Ask>
  );
}
