import { BookOpen } from "lucide-react";
import { useRef, useState } from "react";

import { useMay } from "@/api/session";
import { Button } from "@/ui/Button";
import { Confirm } from "@/ui/Dialog";
import { Empty } from "@/ui/Empty";

import { newName, type Skill, skillsOf } from "../documents";
import type { TeamDetails } from "../teamQueries";
import { Pane } from "./Pane";
import { SkillEditor } from "./SkillEditor";

const NEW = "+";

/** What agents of the team can read when they need it. */
export function SkillsTab({ team }: { team: TeamDetails }) {
  const may = useMay("teams:write");
  const skills = skillsOf(team);
  const [selected, setSelected] = useState<string>();
  const [leaving, setLeaving] = useState<string>();
  const unsaved = useRef(() => false);
  const adding = selected === NEW && may;
  const skill = adding ? newSkill(skills) : (skills.find((each) => each.name === selected) ?? skills[0]);
  const select = (name: string) => (unsaved.current() ? setLeaving(name) : setSelected(name));
  if (skill === undefined) {
    return (
      <Empty icon={BookOpen} title="No skills yet" action={may && <Button look="primary" onClick={() => setSelected(NEW)}>Add a skill</Button>}>
        A skill is a folder with instructions, and files if you like, that agents read when they need it: a style guide, a checklist, how to make a
        release.
      </Empty>
    );
  }
  return (
    <Pane
      label="Skills"
      items={skills.map((each) => ({ key: each.name, name: each.name, note: knownBy(team, each.name) }))}
      selected={adding ? undefined : skill.name}
      onSelect={select}
      onAdd={may ? () => select(NEW) : undefined}
      addLabel="Add a skill"
    >
      <SkillEditor key={adding ? NEW : skill.name} team={team} skill={skill} isNew={adding} readOnly={!may} unsaved={unsaved} onSaved={setSelected} />
      {leaving !== undefined && (
        <Confirm
          title="Leave without saving?"
          action="Leave"
          danger
          onClose={() => setLeaving(undefined)}
          onConfirm={() => {
            setSelected(leaving);
            setLeaving(undefined);
          }}
        >
          <p>What you have changed in {skill.name} is not saved, and is lost if you leave.</p>
        </Confirm>
      )}
    </Pane>
  );
}

function newSkill(skills: Skill[]): Skill {
  return { name: newName("skill", skills.map((each) => each.name)), description: "", instructions: "", files: {} };
}

function knownBy(team: TeamDetails, skill: string): string {
  const names = [team.leader, ...team.workers].filter((agent) => agent.skills.includes(skill)).map((agent) => agent.name);
  return names.length === 0 ? "no agent is told of it" : `for ${names.join(", ")}`;
}
